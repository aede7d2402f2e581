/** @file Which runtimes of a machine count: stand-ins that say with which environment and words they were tried. */

import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { nodeImages } from "../../../agent/system/node-images.ts";
import { folder, removeFolders } from "../fixture.ts";

afterEach(removeFolders);

/** A folder with a runtime that ends so. */
function runtime(name: string, status: number): string {
  const dir = folder();
  const text = `#!/bin/sh\n/usr/bin/env > ${dir}/env; echo "$*" > ${dir}/words; exit ${status}\n`;
  writeFileSync(join(dir, name), text);
  chmodSync(join(dir, name), 0o755);
  return dir;
}
const runtimesIn = (dir: string, env: Readonly<Record<string, string>> = {}) =>
  nodeImages({ env: { PATH: dir, ...env }, native: undefined }).tools.map((tool) => tool.runtime);

it.each([
  ["podman", 1, ["podman"]],
  ["podman", 127, ["podman"]],
  // Its init is missing; crun refuses the machine's cgroups.
  ["podman", 125, []],
  ["podman", 126, []],
  ["docker", 0, ["docker"]],
  ["docker", 1, []],
])("a %s that ends with %i when it is tried", (name, status, counted) => {
  expect(runtimesIn(runtime(name, status))).toEqual(counted);
});

it("a runtime is tried with the limits and the environment with which launches start it", () => {
  const dir = runtime("podman", 1);
  runtimesIn(dir, { CONTAINERS_CONF: "/etc/own.conf", HTTPS_PROXY: "http://proxy", TOKEN: "1" });
  const env = readFileSync(join(dir, "env"), "utf8");
  expect(env).toMatch(/^CONTAINERS_CONF=\/etc\/own.conf$/m);
  expect(env).toMatch(/^HTTPS_PROXY=http:\/\/proxy$/m);
  expect(env).not.toMatch(/^TOKEN=/m);
  expect(readFileSync(join(dir, "words"), "utf8")).toMatch(
    /^run --rm --init .*--cgroups disabled --ulimit nofile=\d+:\d+ --ulimit nproc=\d+:\d+ --rootfs /,
  );
});

it("where jobs start as other users, a runtime is tried as one, with no place of the agent's own", () => {
  const dir = runtime("apptainer", 0);
  const env = { PATH: dir, APPTAINER_CACHEDIR: "/root/cache", HTTPS_PROXY: "http://proxy" };
  const become = ["/bin/sh", "-c", 'AS=other exec "$@"', "sh"];
  const { tools } = nodeImages({ env, native: undefined, become });
  expect(tools).toHaveLength(1);
  const tried = readFileSync(join(dir, "env"), "utf8");
  expect(tried).toMatch(/^AS=other$/m);
  expect(tried).toMatch(/^HTTPS_PROXY=/m);
  expect(tried).not.toMatch(/^APPTAINER_CACHEDIR=/m);
});
