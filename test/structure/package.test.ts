/** What `npm pack` puts into the package: the packages that run, a manifest that needs the registry alone, and one platform's bridge after the installation. */

import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, normalize } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { checkOnnxruntime } from "../../models/onnxruntime.ts";
import {
  copyLean,
  isFileLeftOut,
  manifestOf,
  packagesThatRun,
  takeBack,
} from "../../tools/pack.mjs";
import { readLock } from "../../tools/supply-chain.mjs";
import { keepThisPlatform } from "../../tools/this-platform.mjs";

const ROOT = join(import.meta.dirname, "../..");
const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as Parameters<
  typeof manifestOf
>[0];

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "orbweaver-pack-"));
});
afterEach(() => {
  rmSync(folder, { recursive: true, force: true });
});

test("brings what runs, and neither bundlers nor onnxruntime", () => {
  const places = packagesThatRun(readLock(), Object.keys(manifest.dependencies));
  const brought = places.map((place) => place.slice("node_modules/".length));
  const wanted = ["@temporalio/worker", "@temporalio/core-bridge", "rxjs", "zod", "libsql"];
  expect(brought).toEqual(expect.arrayContaining(wanted));
  const left = /^(webpack|memfs|unionfs|onnxruntime-.*|@swc\/.*|@libsql\/.*|vitest|typescript)$/;
  expect(brought.filter((name) => left.test(name))).toEqual([]);
});

const MOST_MB = 120;
const BRIDGE = "@temporalio/core-bridge";
/** As `du` counts, and disks. */
const BLOCK_BYTES = 4_096;
const onDisk = (bytes: number): number => Math.ceil(bytes / BLOCK_BYTES) * BLOCK_BYTES;

function bytesIn(place: string): number {
  const entries = readdirSync(place, { withFileTypes: true, recursive: true });
  return entries.reduce(
    (sum, entry) =>
      entry.isFile() ? sum + onDisk(statSync(join(entry.parentPath, entry.name)).size) : sum,
    0,
  );
}

/** The declarations that whoever imports the package needs: those of its entries, and all that these name. */
function typesOf(exports: object): string[] {
  const open = Object.values(exports).flatMap(({ types }: { readonly types?: string }) =>
    types === undefined ? [] : [normalize(types)],
  );
  const found = new Set<string>();
  for (const file of open) {
    if (found.has(file)) continue;
    found.add(file);
    const text = readFileSync(join(ROOT, file), "utf8");
    for (const [, named = ""] of text.matchAll(/["'](\.{1,2}\/[^"']+)\.[jt]s["']/g))
      open.push(join(dirname(file), `${named}.d.ts`));
  }
  return [...found];
}

test(`takes at most ${String(MOST_MB)} MB with its dependencies, and has no map, no test and no source of ours`, () => {
  const lock = readLock();
  for (const place of packagesThatRun(lock, Object.keys(manifest.dependencies))) {
    const name = place.slice(place.lastIndexOf("node_modules/") + "node_modules/".length);
    if (name !== BRIDGE) copyLean(name, join(ROOT, place), join(folder, place));
  }
  // Its libraries of other platforms go when it is installed, so they need not be copied; the largest one counts.
  const bridges = join(ROOT, "node_modules", BRIDGE, "releases");
  const ours = readdirSync(bridges).filter((platform) => !platform.includes("windows"));
  const bridge = Math.max(...ours.map((platform) => bytesIn(join(bridges, platform))));
  const packed = spawnSync("npm", ["pack", "--dry-run", "--json", "--ignore-scripts"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  const [{ files }] = JSON.parse(packed.stdout) as readonly [
    { readonly files: readonly { readonly path: string; readonly size: number }[] },
  ];
  const names = files.map(({ path }) => path);
  expect(names).toEqual(expect.arrayContaining(["package.json", "dist/cli/main.js", "LICENSE"]));
  expect(names.filter((name) => /\.map$|^test\/|^node_modules\/|(?<!\.d)\.ts$/.test(name))).toEqual(
    [],
  );
  expect(names).toEqual(expect.arrayContaining(typesOf(manifest["exports"] as object)));
  const own = files.reduce((sum, { size }) => sum + onDisk(size), 0);
  const fetched = Object.keys(manifestOf(manifest, lock)["optionalDependencies"] as object)
    .map((name) => join(ROOT, "node_modules", name))
    .filter((place) => existsSync(place));
  const all = fetched.reduce((sum, place) => sum + bytesIn(place), own + bridge + bytesIn(folder));
  expect(all / 2 ** 20).toBeGreaterThan(MOST_MB / 2);
  expect(all / 2 ** 20).toBeLessThanOrEqual(MOST_MB);
});

test("takes the package that Node would find, which may lie inside another one", () => {
  const packages = {
    "node_modules/a": { dependencies: { b: "1" } },
    "node_modules/a/node_modules/b": { dependencies: { c: "1" } },
    "node_modules/b": {},
    "node_modules/c": { dependencies: { b: "2" } },
  };
  expect(packagesThatRun({ packages }, ["a"])).toEqual([
    "node_modules/a",
    "node_modules/a/node_modules/b",
    "node_modules/b",
    "node_modules/c",
  ]);
  expect(() => packagesThatRun({ packages }, ["d"])).toThrow("the lockfile has no d");
});

test("asks the registry for packages of one platform alone, none of which runs a script", () => {
  const lock = readLock();
  const lean = manifestOf(manifest, lock);
  expect(lean).not.toHaveProperty("dependencies");
  expect(lean).toMatchObject({
    peerDependenciesMeta: { "onnxruntime-node": { optional: true } },
    scripts: { postinstall: "node tools/this-platform.mjs" },
  });
  const fetched = Object.keys(lean["optionalDependencies"] ?? {});
  expect(fetched.sort()).toEqual([
    "@libsql/darwin-arm64",
    "@libsql/darwin-x64",
    "@libsql/linux-arm64-gnu",
    "@libsql/linux-x64-gnu",
  ]);
  for (const name of fetched) {
    expect(lock.packages[`node_modules/${name}`]).not.toHaveProperty("hasInstallScript");
    expect(lock.packages[`node_modules/${name}`]).toMatchObject({
      os: [expect.any(String)],
      cpu: [expect.any(String)],
    });
  }
});

test.each([
  ["zod", "LICENSE.md", false],
  ["zod", "NOTICE", false],
  ["zod", "README.md", true],
  ["zod", "index.d.ts", true],
  ["long", "index.d.ts", false],
  ["long", "index.js", false],
  ["long", "index.js.map", true],
])("of %s leaves %s out: %s", (name, file, want) => {
  expect(isFileLeftOut(name, file)).toBe(want);
});

test("passes the terms of code on that is compiled into a library, and nothing else of its folder", () => {
  const [from, to] = [join(folder, "from"), join(folder, "to")];
  for (const file of ["index.js", "sdk-core/LICENSE.txt", "sdk-core/src/lib.js"]) {
    mkdirSync(join(from, file, ".."), { recursive: true });
    writeFileSync(join(from, file), "");
  }
  copyLean("@temporalio/core-bridge", from, to);
  const there = readdirSync(to, { recursive: true, encoding: "utf8" });
  expect(there.sort()).toEqual(["index.js", "sdk-core", "sdk-core/LICENSE.txt"]);
});

test("after a packing that died takes the whole manifest back, but not over one that somebody has changed", () => {
  const [now, kept] = [join(folder, "package.json"), join(folder, "whole.json")];
  writeFileSync(kept, JSON.stringify(manifest));
  writeFileSync(now, JSON.stringify(manifestOf(manifest, readLock())));
  takeBack(now, kept);
  expect(JSON.parse(readFileSync(now, "utf8"))).toEqual(manifest);
  const changed = JSON.stringify({ ...manifest, version: "9.9.9" });
  writeFileSync(now, changed);
  writeFileSync(kept, JSON.stringify(manifest));
  takeBack(now, kept);
  expect(readFileSync(now, "utf8")).toBe(changed);
  expect(readdirSync(folder)).toEqual(["package.json"]);
});

test("is published from what npm pack made, because npm tells the registry the manifest of a folder as it is afterwards", () => {
  expect(manifest["scripts"]).toMatchObject({
    prepublishOnly: expect.stringMatching(/npm publish \.\/.*exit 1$/) as string,
  });
  expect(manifestOf(manifest, readLock())["scripts"]).not.toHaveProperty("prepublishOnly");
});

const RELEASES = "dist/node_modules/@temporalio/core-bridge/releases";

test.each([
  ["linux", "arm64", ["aarch64-unknown-linux-gnu"]],
  ["darwin", "x64", ["x86_64-apple-darwin"]],
  ["linux", "riscv64", ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin"]],
])("keeps the bridge of %s on %s after the installation", (platform, arch, want) => {
  for (const target of ["aarch64-unknown-linux-gnu", "x86_64-apple-darwin"]) {
    mkdirSync(join(folder, RELEASES, target), { recursive: true });
    writeFileSync(join(folder, RELEASES, target, "index.node"), "");
  }
  keepThisPlatform(folder, { platform, arch });
  expect(readdirSync(join(folder, RELEASES)).sort()).toEqual(want);
});

test("removes nothing in a clone, which has no packages in dist", () => {
  expect(() => keepThisPlatform(folder)).not.toThrow();
});

test("without onnxruntime says how to install the very release that the package was tried with", () => {
  // Node looks above a folder, too, and the machine's folder for temporary files may have packages.
  const file = pathToFileURL("/nowhere/models/x.js").href;
  expect(() => checkOnnxruntime(file)).toThrow(
    `npm install --global --ignore-scripts onnxruntime-node@${manifest.dependencies["onnxruntime-node"] ?? ""}`,
  );
});

test("with onnxruntime has no word to say", () => {
  expect(() => checkOnnxruntime()).not.toThrow();
});
