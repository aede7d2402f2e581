/**
 * @file What `npm pack` makes besides the build: the packages that run, without what only builds need, and the manifest that says so. `--undo` takes both back.
 *
 * Installed from the registry, the dependencies would take 640 MB: native libraries of all platforms, and a bundler that the finished bundle of the workflows
 * has no use for. So the package brings its JavaScript in `dist/node_modules`, where Node finds it, as lean copies of what the lockfile names. Left to the
 * registry is what differs by platform in packages of its own. Temporal's native bridge comes for every platform that Orbweaver runs on; after the
 * installation `this-platform.mjs` keeps one.
 */

import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { readLock } from "./supply-chain.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const VENDOR = path.join(ROOT, "dist/node_modules");
const MANIFEST = path.join(ROOT, "package.json");
const WHOLE = path.join(ROOT, "dist/.whole-package.json");

/** A package for each platform, of which npm takes the one that fits; those with musl never fit, because Temporal's bridge needs glibc. */
const FROM_REGISTRY = /^@libsql\/(linux-(x64|arm64)-gnu|darwin-(x64|arm64))$/;
/** Whoever serves models or trains the bandwidth model installs it beside; see `models/onnxruntime.ts`. */
const BESIDE = "onnxruntime-node";
/** Only bundling needs them, and the bundle is in the package. The worker library loads those with a stand-in when it starts. */
const BUNDLERS = new Set([
  "@swc/core",
  "memfs",
  "source-map-loader",
  "swc-loader",
  "unionfs",
  "webpack",
]);
const STAND_INS = ["memfs", "unionfs", "webpack"];
/** Whose types those of the client's library name. */
const TYPED = /^(@temporalio\/(client|common|proto)|@grpc\/grpc-js|long|nexus-rpc|protobufjs)$/;

/** At the top of a package: what nothing runs. */
const NO_FOLDERS = /^(sdk-core|bridge-macros|tests?|docs?|examples?|benchmarks?|scripts|\.github)$/;
const NO_FILES =
  /\.(map|ts|mts|cts|tsx|flow|md|markdown|yml|rs|tsbuildinfo|toml|lock)$|^\.|^(CHANGELOG|AUTHORS)/i;
/** Whoever passes a package on passes these on with it. */
const TERMS = /^(licen[cs]e|notice|copying|copyright|third-?party)/i;
const TYPES = /\.d\.[cm]?ts$/;
/** Other builds of the same code, which Node takes from none of our imports. */
const TWINS = new Map([
  ["rxjs", /^(src|dist\/(esm|esm5|bundles|types))$/],
  ["yaml", /^browser$/],
]);

/** What runs, by its place in the lockfile: everything the manifest's dependencies need but what is left out above. */
export function packagesThatRun(lock, roots) {
  const found = new Set();
  const open = roots.map((name) => ["", name]);
  while (open.length > 0) {
    const [from, name] = open.pop();
    if (BUNDLERS.has(name) || name === BESIDE) continue;
    const place = placeOf(lock, from, name);
    if (place === undefined)
      throw new Error(`the lockfile has no ${name} for ${from || "the root"}`);
    if (found.has(place)) continue;
    found.add(place);
    for (const needed of Object.keys(lock.packages[place].dependencies ?? {}))
      open.push([place, needed]);
  }
  return [...found].sort();
}

/** The nearest one, as Node looks for it. */
function placeOf(lock, from, name) {
  for (
    let folder = from;
    ;
    folder = folder.slice(0, Math.max(0, folder.lastIndexOf("/node_modules/")))
  ) {
    const place = folder === "" ? `node_modules/${name}` : `${folder}/node_modules/${name}`;
    if (place in lock.packages) return place;
    if (folder === "") return undefined;
  }
}

/** The manifest of the package: what npm has to fetch, and what it does afterwards. */
export function manifestOf(whole, lock) {
  const { dependencies, ...more } = whole;
  const { devDependencies: _development, overrides: _overrides, allowScripts: _, ...kept } = more;
  const fetched = Object.entries(lock.packages["node_modules/libsql"].optionalDependencies);
  return {
    ...kept,
    scripts: { postinstall: "node tools/this-platform.mjs" },
    optionalDependencies: Object.fromEntries(fetched.filter(([name]) => FROM_REGISTRY.test(name))),
    peerDependencies: { [BESIDE]: dependencies[BESIDE] },
    peerDependenciesMeta: { [BESIDE]: { optional: true } },
  };
}

function make() {
  undo();
  const whole = JSON.parse(readFileSync(MANIFEST, "utf8"));
  const lock = readLock();
  for (const place of packagesThatRun(lock, Object.keys(whole.dependencies))) {
    const name = place.slice(place.lastIndexOf("node_modules/") + 13);
    copyLean(name, path.join(ROOT, place), path.join(VENDOR, place.slice("node_modules/".length)));
  }
  for (const name of STAND_INS) writeStandIn(path.join(VENDOR, name), name);
  replace(WHOLE, readFileSync(MANIFEST));
  replace(MANIFEST, `${JSON.stringify(manifestOf(whole, lock), null, 2)}\n`);
}

/** At one stroke: others may be reading it, and a death leaves no half of it. */
function replace(file, content) {
  writeFileSync(`${file}.next`, content);
  renameSync(`${file}.next`, file);
}

function undo() {
  rmSync(VENDOR, { recursive: true, force: true });
  takeBack(MANIFEST, WHOLE);
}

/** Only in place of the package's own manifest: after a packing that died, somebody may have taken it back and changed it. */
export function takeBack(manifest, whole) {
  if (!existsSync(whole)) return;
  if ("dependencies" in JSON.parse(readFileSync(manifest, "utf8"))) rmSync(whole);
  else renameSync(whole, manifest);
}

/** Of a folder that is left out, terms go along: they may be of code that is compiled into a library. */
export function copyLean(name, from, to, { below = "", isLeftOut = false } = {}) {
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const inside = below === "" ? entry.name : `${below}/${entry.name}`;
    const [source, target] = [path.join(from, entry.name), path.join(to, entry.name)];
    if (entry.isDirectory()) {
      // Those inside are places of their own.
      if (entry.name === "node_modules") continue;
      const isOut = isLeftOut || isFolderLeftOut(name, inside);
      copyLean(name, source, target, { below: inside, isLeftOut: isOut });
    } else if (isLeftOut ? TERMS.test(entry.name) : !isFileLeftOut(name, entry.name)) {
      mkdirSync(to, { recursive: true });
      copyFileSync(source, target);
    }
  }
}

function isFolderLeftOut(name, inside) {
  // Orbweaver does not run on Windows.
  if (name === "@temporalio/core-bridge" && /^releases\/.*-windows-/.test(inside)) return true;
  return NO_FOLDERS.test(inside) || TWINS.get(name)?.test(inside) === true;
}

export const isFileLeftOut = (name, file) =>
  !TERMS.test(file) && NO_FILES.test(file) && !(TYPED.test(name) && TYPES.test(file));

/** Loads, and says what is missing when it is asked to work. */
function writeStandIn(folder, name) {
  mkdirSync(folder, { recursive: true });
  copyFileSync(path.join(ROOT, "tools/no-bundler.cjs"), path.join(folder, "index.js"));
  writeFileSync(
    path.join(folder, "package.json"),
    `${JSON.stringify({ name, version: "0.0.0", private: true, main: "index.js", license: "Apache-2.0" }, null, 2)}\n`,
  );
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  if (process.argv.includes("--undo")) undo();
  else make();
}
