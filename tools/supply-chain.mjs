/**
 * @file What the packages of the lockfile lack: a hash, a licence, or silence about where they came from.
 *
 * Run as a gate of `npm test`; needs no network. npm checks the hashes itself when it installs (`npm ci`), so a package without one is a
 * package that may be exchanged. A licence that a package states only in a file of its own is named here, with that file.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** Licences that stand in a file of the package but not in its package.json. */
const LICENCES_IN_FILES = { "unionfs@4.6.0": "Unlicense" };

/** The packages of a lockfile, each with its name, version, hash and licence where it has them. */
export function packagesOf(lock) {
  return Object.entries(lock.packages)
    .filter(([place]) => place !== "")
    .map(([place, entry]) => {
      const name = entry.name ?? place.slice(place.lastIndexOf("node_modules/") + 13);
      const licence = entry.license ?? LICENCES_IN_FILES[`${name}@${entry.version}`];
      return { ...entry, place, name, licence };
    });
}

/** One sentence for each fault; none: the lockfile is whole. */
export function faultsOf(lock) {
  return packagesOf(lock).flatMap(({ place, name, version, integrity, licence, resolved }) => {
    const faults = [];
    if (!/^sha512-[A-Za-z0-9+/]{86}==$/.test(integrity ?? "")) {
      faults.push("has no sha512 hash; run `npm run lock`");
    }
    if (licence === undefined) {
      faults.push("states no licence; name the one of its files in tools/supply-chain.mjs");
    }
    if (resolved !== undefined) faults.push("names a registry; run `npm run lock`");
    return faults.map((fault) => `${place} (${name}@${version}) ${fault}`);
  });
}

export function readLock() {
  return JSON.parse(readFileSync(path.join(ROOT, "package-lock.json"), "utf8"));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const faults = faultsOf(readLock());
  for (const fault of faults) process.stderr.write(`${fault}\n`);
  process.exitCode = faults.length === 0 ? 0 : 1;
}
