/**
 * @file Writes the lockfile after a change of package.json: with the hash of every package, without the addresses of a registry.
 *
 * npm drops hashes together with addresses (`omit-lockfile-registry-resolved` in .npmrc), so it writes both here and the addresses are
 * taken out. Hashes that are there already stay as they are.
 */

import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { ROOT } from "./setup.mjs";
import { faultsOf } from "./supply-chain.mjs";

const file = path.join(ROOT, "package-lock.json");
const done = spawnSync(
  "npm",
  ["install", "--package-lock-only", "--ignore-scripts", "--omit-lockfile-registry-resolved=false"],
  { cwd: ROOT, stdio: "inherit", shell: process.platform === "win32" },
);
if (done.status !== 0) throw new Error("`npm install --package-lock-only` failed");
const lock = JSON.parse(readFileSync(file, "utf8"));
for (const entry of Object.values(lock.packages)) delete entry.resolved;
writeFileSync(file, `${JSON.stringify(lock, null, 2)}\n`);
const faults = faultsOf(lock);
for (const fault of faults) process.stderr.write(`${fault}\n`);
process.exitCode = faults.length === 0 ? 0 : 1;
