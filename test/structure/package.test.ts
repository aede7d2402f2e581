/** What `npm pack` puts into the package: the packages that run, a manifest that needs the registry alone, and one platform's bridge after the installation. */

import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
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
