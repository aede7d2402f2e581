import { readFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { build } from "../../../workers/server/build.ts";
import type { Made } from "../../../workers/server/download.ts";
import { PINNED_SERVER } from "../../../workers/server/version.ts";
import { linesOf, newWorld, writeGo, writeModule } from "./fakes.ts";
import type { FakeGo, World } from "./fakes.ts";

async function buildIn(
  world: World,
  onDetail: (detail: string) => void = () => undefined,
): Promise<Made> {
  return await build({
    moduleDir: writeModule(world),
    machine: { platform: "linux", arch: "x64" },
    env: { ...world.env, GOOS: "plan9", TEMPORAL_ADDRESS: "prod:7233" },
    folder: await mkdtemp(join(world.folder, "work-")),
    onDetail,
  });
}

test("without go the reason says so", async () => {
  expect(await buildIn(newWorld())).toEqual({ kind: "failed", reason: "go is not on the PATH" });
});

const TOOLCHAINS: readonly (FakeGo & { readonly wantReason?: string })[] = [
  { version: "go1.26.4", toolchain: "local" },
  { version: "go1.27.0", toolchain: "local" },
  { version: "go1.26.3", toolchain: "auto" },
  { version: "go1.23.1", toolchain: "go1.23.1+auto" },
  { version: "go1.26.3", toolchain: "local", wantReason: "GOTOOLCHAIN=local forbids the switch" },
  { version: "go1.24.0", toolchain: "go1.24.0", wantReason: "forbids the switch" },
  { version: "go1.19.13", toolchain: "", wantReason: "too old; 1.26.4 is needed" },
  { version: "gibberish", toolchain: "", wantReason: "was not understood" },
];

test.each(TOOLCHAINS)("Go $version with GOTOOLCHAIN=$toolchain", async (row) => {
  const world = newWorld();
  const builds = writeGo(world, row);
  const made = await buildIn(world);
  if (row.wantReason === undefined) {
    expect(made.kind).toBe("made");
  } else {
    expect(made).toMatchObject({ kind: "failed" });
    expect(made.kind === "failed" ? made.reason : "").toContain(row.wantReason);
    expect(linesOf(builds)).toEqual([]);
  }
});

test("the build is told the version, needs no C compiler, and ignores a cross-compiling setting", async () => {
  const world = newWorld();
  const builds = writeGo(world);
  await buildIn(world);
  const line = linesOf(builds)[0] ?? "";
  expect(line).toMatch(/^cgo=0 goos= build -mod=readonly -trimpath /);
  expect(line).toContain(`temporalcli.Version=${PINNED_SERVER.cli} -o`);
});

test("what go says shows as counts with the time that went by", async () => {
  const world = newWorld();
  writeGo(world, { says: ["go: downloading example.org/a v1.0.0", "example.org/a"] });
  const details: string[] = [];
  await buildIn(world, (detail) => details.push(detail));
  expect(details[0]).toBe("go1.26.8, fetched 0 of about 205 modules, 0m00s");
  expect(details[1]).toMatch(/^go1\.26\.8, fetched 1 of about 205 modules, \d+m\d\ds$/);
});

test("a build that fails quotes what went wrong and not the downloads before it", async () => {
  const world = newWorld();
  const fault = "go: example.org/a@v1.0.0: dial tcp 10.0.0.1:443: connection refused";
  writeGo(world, { fails: true, says: ["go: downloading example.org/a v1.0.0", fault] });
  expect(await buildIn(world)).toEqual({
    kind: "failed",
    reason: `go build exited with 1: ${fault}`,
  });
});

test("the shipped module pins the versions that the code names", () => {
  const file = new URL("../../../tools/temporal-server/go.mod", import.meta.url);
  const text = readFileSync(fileURLToPath(file), "utf8");
  expect(text).toContain(`github.com/temporalio/cli v${PINNED_SERVER.cli} `);
  expect(text).toContain(`go.temporal.io/server v${PINNED_SERVER.server} `);
});
