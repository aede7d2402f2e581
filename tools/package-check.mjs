/**
 * @file Checks the package as users install it: `npm run test:package`. Packs it, installs it globally in a folder of its own, and on Node 20, 22 and 24 brings a
 * fleet up, runs a job and takes it down. About five minutes; needs the npm registry and nothing else, and is skipped where that does not answer.
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");
const NODES = [20, 22, 24];
const MOST_MB = 120;
const WITHIN_MS = 300_000;

const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-package-"));
const bars = [];
const judge = (id, got, holds) => {
  bars.push(holds);
  console.log(`${holds ? "holds " : "MISSED"}  ${id}: ${got}`);
};

const run = (command, args, { cwd = folder, env = {} } = {}) => {
  const done = spawnSync(command, args, {
    cwd,
    env: { ...process.env, NO_COLOR: "1", ...env },
    encoding: "utf8",
    timeout: WITHIN_MS,
  });
  return { isOk: done.status === 0, text: `${done.stdout ?? ""}${done.stderr ?? ""}`.trim() };
};
const must = (command, args, options) => {
  const { isOk, text } = run(command, args, options);
  if (!isOk) throw new Error(`${command} ${args.join(" ")}:\n${text.slice(-2_000)}`);
  return text;
};

function install() {
  must("npm", ["pack", "--pack-destination", folder], { cwd: ROOT });
  const tarball = readdirSync(folder).find((file) => file.endsWith(".tgz"));
  const prefix = path.join(folder, "global");
  const words = ["install", "--global", "--prefix", prefix, "--prefer-offline"];
  const { isOk, text } = run("npm", [...words, path.join(folder, tarball)]);
  judge("npm install --global", isOk ? "ok" : text.slice(-500), isOk);
  const megabytes = Number(must("du", ["-sm", prefix]).split("\t")[0]);
  judge(
    `installed with its dependencies, <= ${MOST_MB} MB`,
    `${megabytes} MB`,
    megabytes <= MOST_MB,
  );
  return path.join(prefix, "lib/node_modules/orbweaver/dist/cli/main.js");
}

/** The program `node` of that release. */
function nodeOf(major) {
  const name = `node-${process.platform}-${process.arch}`;
  const prefix = path.join(folder, `node-${major}`);
  mkdirSync(prefix);
  must("npm", ["install", "--prefix", prefix, "--ignore-scripts", `${name}@${major}`]);
  return path.join(prefix, "node_modules", name, "bin/node");
}

function runsOn(major, main) {
  const node = nodeOf(major);
  const env = { ORBWEAVER_STATE_DIR: path.join(folder, `state-${major}`) };
  const orbweaver = (...words) => run(node, [main, ...words], { env });
  const steps = [
    ["up", "--isolated", "--json"],
    ["submit", "--isolated", "--wait", "--gpus", "2", "--", "sh", "-c", "echo rank $RANK"],
  ];
  try {
    const failed = steps.map((words) => orbweaver(...words)).find(({ isOk }) => !isOk);
    const version = must(node, ["--version"]);
    judge(`runs on Node ${major}`, failed?.text.slice(-500) ?? version, failed === undefined);
  } finally {
    orbweaver("down", "--purge");
  }
}

if (!run("npm", ["view", "node", "version", "--fetch-retries=0"]).isOk) {
  console.log("skipped: no npm registry answers");
  process.exit(0);
}
try {
  const main = install();
  for (const major of NODES) runsOn(major, main);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
process.exitCode = bars.every((holds) => holds) ? 0 : 1;
