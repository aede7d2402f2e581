/**
 * @file Makes a clone ready: installs the packages when the lockfile changed, then builds. Needs nothing but Node and npm.
 *
 * Progress goes to stderr; stdout belongs to the caller.
 */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, lstatSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

export const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const MIN_NODE = [20, 3];

export async function setup() {
  const [major = 0, minor = 0] = process.versions.node.split(".").map(Number);
  if (major < MIN_NODE[0] || (major === MIN_NODE[0] && minor < MIN_NODE[1])) {
    throw new Error(
      `Node ${process.versions.node} is too old; Orbweaver needs ${MIN_NODE.join(".")} or later`,
    );
  }
  install();
  const { build } = await import("./build.mjs");
  await build({ say });
}

export const say = (what) => process.stderr.write(`· ${what}\n`);

/** The environment for everything we start: the user's Temporal settings may point at production and stay outside. */
export function ownEnvironment() {
  return Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !name.startsWith("TEMPORAL_")),
  );
}

/** Arguments of this script, whose `flags` are told by name; `--help` and unknown ones end it. npm turns flags without `--` into npm_config_* variables, so those count too. */
export function flagsOf(usage, flags) {
  const given = process.argv.slice(2);
  const names = Object.keys(flags);
  const unknown = given.find((each) => !names.some((name) => each === `--${name}`));
  if (unknown === "--help" || unknown === "-h") {
    const lines = names.map((name) => `  --${name.padEnd(10)}${flags[name]}`);
    process.stdout.write(`${usage}\n\n${lines.join("\n")}\n`);
    process.exit(0);
  }
  if (unknown !== undefined) {
    const known = names.map((name) => `--${name}`).join(", ");
    process.stderr.write(`unknown argument ${JSON.stringify(unknown)}; there are ${known}\n`);
    process.exit(2);
  }
  return new Set(
    names.filter(
      (name) => given.includes(`--${name}`) || process.env[`npm_config_${name}`] === "true",
    ),
  );
}

function install() {
  const lock = createHash("sha256")
    .update(readFileSync(path.join(ROOT, "package-lock.json")))
    .digest("hex");
  const folder = path.join(ROOT, "node_modules");
  const stampFile = path.join(folder, ".orbweaver-packages");
  if (existsSync(stampFile) && readFileSync(stampFile, "utf8") === lock) return;
  // npm would empty the folder of another checkout.
  if (lstatSync(folder, { throwIfNoEntry: false })?.isSymbolicLink() === true) {
    throw new Error(
      `${folder} is a link, and its packages are not those of package-lock.json; remove the link and run this again`,
    );
  }
  say("installing packages");
  // The script may itself run under npm with omit=dev; building needs the compiler either way.
  const done = spawnSync(
    "npm",
    ["ci", "--include=dev", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"],
    {
      cwd: ROOT,
      stdio: ["ignore", "ignore", "inherit"],
      shell: process.platform === "win32",
    },
  );
  if (done.status !== 0) throw new Error("`npm ci` failed; its messages stand above");
  writeFileSync(stampFile, lock);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await setup();
}
