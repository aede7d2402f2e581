import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findServer, provideServerBinary } from "../../../workers/server/index.ts";
import type { OnProgress, Progress } from "../../../workers/server/progress.ts";
import {
  NEW_VERSION,
  OLD_VERSION,
  closedSteps,
  linesOf,
  newWorld,
  optionsIn,
  reasonOf,
  writeGo,
  writeModule,
  writeScript,
  writeTemporal,
} from "./fakes.ts";

test("a given address is taken as it is, and nothing is looked for", async () => {
  const world = newWorld();
  const options = optionsIn(world);
  expect(await findServer({ ...options, address: "prod:7233" })).toEqual({
    address: "prod:7233",
    source: "address",
  });
  expect(closedSteps(options.events)).toEqual(["address ok"]);
  expect(existsSync(world.cacheDir)).toBe(false);
});

test("a new temporal on the PATH comes before the cache", async () => {
  const world = newWorld();
  writeTemporal(join(world.bin, "temporal"), NEW_VERSION);
  writeTemporal(world.cached, NEW_VERSION);
  const options = optionsIn(world);
  expect(await findServer(options)).toEqual({ path: join(world.bin, "temporal"), source: "path" });
  expect(closedSteps(options.events)).toEqual(["path ok"]);
});

const UNFIT = [
  { name: "an old one", script: [`echo '${OLD_VERSION}'`], wantReason: "older than 1.8.2" },
  { name: "one that prints garbage", script: ["echo hello"], wantReason: "which is not a version" },
  {
    name: "one that fails",
    script: ["echo boom >&2", "exit 3"],
    wantReason: 'exited with 3 ("boom")',
  },
];

test.each(UNFIT)("$name on the PATH is passed over with the reason", async (row) => {
  const world = newWorld();
  writeScript(join(world.bin, "temporal"), row.script);
  writeTemporal(world.cached, NEW_VERSION);
  const options = optionsIn(world);
  expect(await provideServerBinary(options)).toEqual({ path: world.cached, source: "cache" });
  expect(closedSteps(options.events)).toEqual(["path failed", "cache ok"]);
  expect(reasonOf(options.events, "path")).toContain(row.wantReason);
});

test("when nothing is there it is built, cached, and found in the cache next time", async () => {
  const world = newWorld();
  const builds = writeGo(world, { says: ["go: downloading a/b v1.0.0", "a/b", "a/b/c"] });
  const options = optionsIn(world, { moduleDir: writeModule(world) });
  expect(await provideServerBinary(options)).toEqual({ path: world.cached, source: "build" });
  expect(closedSteps(options.events)).toEqual([
    "path failed",
    "cache failed",
    "download failed",
    "build ok",
  ]);
  expect(reasonOf(options.events, "download")).toContain("ECONNREFUSED");
  expect(linesOf(builds)).toHaveLength(1);

  const again = optionsIn(world);
  expect(await provideServerBinary(again)).toEqual({ path: world.cached, source: "cache" });
  expect(linesOf(builds)).toHaveLength(1);
  expect(readdirSync(join(world.cacheDir, "orbweaver"))).toEqual(["temporal-1.8.2-linux-x64"]);
});

test("when every way fails one error lists each with its reason", async () => {
  const world = newWorld();
  const options = optionsIn(world);
  const failure: unknown = await provideServerBinary(options).catch((error: unknown) => error);
  expect(failure).toMatchObject({ type: "TEMPORAL_SERVER_UNAVAILABLE", nonRetryable: true });
  const text = String(failure);
  for (const step of ["path", "cache", "download", "build"] as const) {
    const reason = reasonOf(options.events, step);
    expect(reason).not.toBe("");
    expect(text).toContain(reason);
  }
});

test("a cache folder that cannot be made fails the ways that need it, with the folder named", async () => {
  const world = newWorld();
  writeFileSync(world.cacheDir, "a file where the folder should be");
  const options = optionsIn(world);
  await expect(provideServerBinary(options)).rejects.toMatchObject({
    type: "TEMPORAL_SERVER_UNAVAILABLE",
  });
  for (const step of ["download", "build"] as const) {
    expect(reasonOf(options.events, step)).toContain(join(world.cacheDir, "orbweaver"));
  }
});

test("a cached program that does not run is reported and replaced", async () => {
  const world = newWorld();
  writeScript(world.cached, ["exit 1"]);
  writeGo(world);
  const options = optionsIn(world, { moduleDir: writeModule(world) });
  expect(await provideServerBinary(options)).toEqual({ path: world.cached, source: "build" });
  expect(reasonOf(options.events, "cache")).toContain("exited with 1; it will be replaced");
  expect((await provideServerBinary(optionsIn(world))).source).toBe("cache");
});

test("a built program that is not new enough is not installed", async () => {
  const world = newWorld();
  writeScript(join(world.bin, "go"), [
    'if [ "$1" = env ]; then echo go1.26.8; echo local; exit 0; fi',
    'while [ "$1" != -o ]; do shift; done',
    `printf '%s\\n' '#!/bin/sh' "echo '${OLD_VERSION}'" > "$2"`,
  ]);
  const options = optionsIn(world, { moduleDir: writeModule(world) });
  await expect(provideServerBinary(options)).rejects.toThrow("older than 1.8.2");
  expect(existsSync(world.cached)).toBe(false);
});

test("of two at once one builds and the other waits, says so, and takes the result", async () => {
  const world = newWorld();
  const gate = join(world.folder, "gate");
  execFileSync("mkfifo", [gate]);
  const builds = writeGo(world, { gate, says: ["go: downloading a/b v1.0.0"] });
  const moduleDir = writeModule(world);

  const building = watch((event) => event.step === "build");
  const first = provideServerBinary(
    optionsIn(world, { moduleDir, onProgress: building.onProgress }),
  );
  await building.seen;
  const waiting = watch((event) => event.step === "cache" && event.state === "trying");
  const second = provideServerBinary(
    optionsIn(world, { moduleDir, onProgress: waiting.onProgress }),
  );
  expect((await waiting.seen).detail).toContain(`process ${String(process.pid)} is filling`);
  await writeFile(gate, "go on\n");

  expect(await first).toEqual({ path: world.cached, source: "build" });
  expect(await second).toEqual({ path: world.cached, source: "cache" });
  expect(linesOf(builds)).toHaveLength(1);
});

test("leftovers of a build that died are removed, those of one that may run are kept", async () => {
  const world = newWorld();
  const folder = join(world.cacheDir, "orbweaver");
  const [dead, young] = ["dead", "young"].map((name) =>
    join(folder, `partial-temporal-1.8.2-linux-x64-${name}`),
  );
  if (dead === undefined || young === undefined) throw new Error("two folders");
  mkdirSync(dead, { recursive: true });
  mkdirSync(young);
  const twoDaysAgo = new Date(Date.now() - 2 * 24 * 3_600_000);
  utimesSync(dead, twoDaysAgo, twoDaysAgo);
  writeGo(world);
  await provideServerBinary(optionsIn(world, { moduleDir: writeModule(world) }));
  expect(existsSync(dead)).toBe(false);
  expect(existsSync(young)).toBe(true);
});

/** Resolves `seen` with the first event that fits. */
function watch(fits: (event: Progress) => boolean): {
  readonly onProgress: OnProgress;
  readonly seen: Promise<Progress>;
} {
  let settle: (event: Progress) => void = () => undefined;
  const seen = new Promise<Progress>((resolve) => {
    settle = resolve;
  });
  return {
    seen,
    onProgress: (event) => {
      if (fits(event)) settle(event);
    },
  };
}
