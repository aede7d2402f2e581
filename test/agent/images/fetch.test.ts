/** @file A host has the image before the gang starts, or says by name that it cannot: with a stand-in for a runtime that only writes what it was told. */

import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { fetchWords } from "../../../agent/images/fetch-words.ts";
import type { Images } from "../../../agent/ports/images.ts";
import { ms } from "../../../domain/values/units.ts";
import { eventually, folder, orderOf, removeFolders, stopOf, testAgent } from "../fixture.ts";

const IMAGE = "registry.example.org/ml/train:2";
let dir = "";

/** `pull` and `run` are lines of a shell, to which the words come as arguments. */
function standIn(pull: string, run = "exit 0"): Images {
  const path = join(dir, "podman");
  const line = `case "$1" in image) [ -e ${dir}/has ];; pull) ${pull};; run) ${run};; esac`;
  writeFileSync(path, `#!/bin/sh\necho "$*" >> ${dir}/calls\n${line}\n`);
  chmodSync(path, 0o755);
  const limits = { processes: 900, openFiles: 800 };
  const ids = { uid: 7, gid: 8 };
  return { tools: [{ runtime: "podman", path }], ids, limits, entriesOf: () => [] };
}
const calls = (): readonly string[] => readFileSync(join(dir, "calls"), "utf8").trim().split("\n");
const orderIn = (pullTimeoutMs = 60_000) =>
  orderOf("exit 0", {
    run: {
      container: {
        ...{ image: IMAGE, runtime: "auto", mounts: [], user: "host" },
        pullTimeoutMs: ms(pullTimeoutMs),
      },
    },
  });

beforeEach(() => {
  dir = folder();
});
afterEach(removeFolders);

it("an image that is not there is fetched once, before the host is prepared, and then started", async () => {
  const agent = testAgent({ images: standIn(`touch ${dir}/has`) });
  expect(await agent.runs.run(orderIn())).toMatchObject({ end: "completed" });
  expect(calls().map((call) => call.split(" ").slice(0, 2).join(" "))).toEqual([
    "image inspect",
    "pull --quiet",
    "run --rm",
  ]);
  expect(calls()[2]).toMatch(
    / --user 7:8 .* --env RANK .*registry.example.org\/ml\/train:2 .*sh -c exit 0$/,
  );
  const phases = agent.task.beats.flatMap((beat) => beat?.phase ?? []);
  expect([...new Set(phases)]).toEqual(["pulling", "running"]);
});

it("the store and the way to the registry are the agent's, and no process inside has them", async () => {
  const env = { CONTAINERS_STORAGE_CONF: "/etc/own.conf", https_proxy: "http://proxy:3128" };
  const images = standIn(`env > ${dir}/pull; touch ${dir}/has`, `env > ${dir}/run; exit 0`);
  await testAgent({ images, env }).runs.run(orderIn());
  const [pull, run] = ["pull", "run"].map((name) => readFileSync(join(dir, name), "utf8"));
  expect(pull).toMatch(/^CONTAINERS_STORAGE_CONF=\/etc\/own.conf$/m);
  expect(pull).toMatch(/^https_proxy=http:\/\/proxy:3128$/m);
  expect(run).toMatch(/^CONTAINERS_STORAGE_CONF=\/etc\/own.conf$/m);
  expect(run).not.toMatch(/^https_proxy=/m);
  expect(calls()[2]).not.toMatch(/CONTAINERS_STORAGE_CONF|https_proxy/);
});

it("an image that is there is not fetched", async () => {
  writeFileSync(join(dir, "has"), "");
  const agent = testAgent({ images: standIn("exit 1") });
  expect(await agent.runs.run(orderIn())).toMatchObject({ end: "completed" });
  expect(calls()).toHaveLength(2);
});

it.each([
  ["fails", "echo manifest unknown >&2; exit 125", 60_000, /ended with 125: manifest unknown/],
  ["is too slow", "exec sleep 600", 200, /not there within 0.2 s/],
] as const)("a fetch that %s is the host's refusal by name", async (_case, pull, limitMs, why) => {
  const agent = testAgent({ images: standIn(pull) });
  const order = orderIn(limitMs);
  const failed = await agent.runs.run(order).catch((error: unknown) => error);
  expect(failed).toMatchObject({ type: "IMAGE_UNAVAILABLE" });
  expect(String(failed)).toMatch(/eu-1\/host-1 cannot get the image registry.example.org/);
  expect(String(failed)).toMatch(why);
  expect(existsSync(agent.filesOf(order).plan)).toBe(false);
});

it("a launch that is called off ends the fetch", async () => {
  const agent = testAgent({ images: standIn(`echo $$ > ${dir}/pid; exec sleep 600`) });
  const order = orderIn();
  const running = agent.runs.run(order);
  await eventually(() => existsSync(join(dir, "pid")));
  await agent.orders.stop(stopOf(order));
  expect(await running).toMatchObject({ end: "stopped" });
  expect(existsSync(agent.filesOf(order).plan)).toBe(false);
});

it("what is fetched differs by runtime, and a path of the host is not", () => {
  expect(fetchWords(IMAGE, { runtime: "docker", path: "/d" })).toEqual({
    look: ["/d", "image", "inspect", "--format", "{{.Id}}", IMAGE],
    fetch: ["/d", "pull", "--quiet", IMAGE],
  });
  expect(fetchWords(IMAGE, { runtime: "apptainer", path: "/a" })).toEqual({
    fetch: ["/a", "exec", "--contain", "--no-home", `docker://${IMAGE}`, "true"],
  });
  expect(fetchWords("/images/a", { runtime: "bubblewrap", path: "/b" })).toBeUndefined();
});
