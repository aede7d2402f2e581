/** @file The package as users get it: packed, installed in an empty folder, brought up, used, taken down. */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { ROOT } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let folder: string;
let env: NodeJS.ProcessEnv;

function run(command: string, args: readonly string[], cwd: string): string {
  const done = spawnSync(command, args, { cwd, env, encoding: "utf8", timeout: 300_000 });
  if (done.status !== 0)
    throw new Error(
      `${command} ${args.join(" ")} gave ${done.status ?? done.signal}:\n${done.stdout}\n${done.stderr}`,
    );
  return done.stdout;
}

beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "orbweaver-package-"));
  env = {
    ...process.env,
    ORBWEAVER_STATE_DIR: path.join(folder, "state"),
    NO_COLOR: "1",
    FORCE_COLOR: undefined,
  };
});
afterAll(() => {
  spawnSync("npx", ["orbweaver", "down", "--purge"], { cwd: path.join(folder, "app"), env });
  removeFolder(folder);
});

it("installs elsewhere, comes up, runs a job, and goes down", () => {
  run("npm", ["pack", "--ignore-scripts", "--pack-destination", folder], ROOT);
  const [tarball] = readdirSync(folder).filter((file) => file.endsWith(".tgz"));
  const app = path.join(folder, "app");
  mkdirSync(app);
  writeFileSync(path.join(app, "package.json"), '{"name":"app","private":true,"type":"module"}');
  run(
    "npm",
    [
      "install",
      "--ignore-scripts",
      "--prefer-offline",
      "--no-audit",
      "--no-fund",
      path.join(folder, tarball ?? ""),
    ],
    app,
  );
  const orbweaver = (...args: string[]): string =>
    run(path.join(app, "node_modules/.bin/orbweaver"), args, app);

  expect(JSON.parse(orbweaver("up", "--isolated", "--json"))).toMatchObject({ hosts: 2 });
  orbweaver(
    "submit",
    "--isolated",
    "--wait",
    "--gpus",
    "2",
    "--key",
    "hello",
    "--",
    "sh",
    "-c",
    'echo "rank $RANK of $WORLD_SIZE"',
  );
  expect(orbweaver("logs", "--isolated", "hello", "--rank", "1")).toContain("rank 1 of 2");
  writeFileSync(
    path.join(app, "library.js"),
    'import { OrbweaverClient } from "orbweaver"; if (typeof OrbweaverClient !== "function") process.exit(1);',
  );
  run(process.execPath, ["library.js"], app);
  orbweaver("down");
});
