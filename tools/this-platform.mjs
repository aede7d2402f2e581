/**
 * @file Runs after the package's installation (`postinstall`): of Temporal's native bridge, which the package brings for each platform, keeps this one's.
 *
 * It removes files of this package alone, and needs no network. Where npm runs no scripts, all stay, and everything runs as well. `npm rebuild` does it later.
 */

import { existsSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const ARCHITECTURES = { x64: "x86_64", arm64: "aarch64" };
const PLATFORMS = { linux: "unknown-linux-gnu", darwin: "apple-darwin" };

/** Leaves everything where this platform has none. */
export function keepThisPlatform(root, { arch, platform } = process) {
  const folder = path.join(root, "dist/node_modules/@temporalio/core-bridge/releases");
  const own = `${ARCHITECTURES[arch]}-${PLATFORMS[platform]}`;
  if (!existsSync(path.join(folder, own, "index.node"))) return;
  for (const each of readdirSync(folder))
    if (each !== own) rmSync(path.join(folder, each), { recursive: true, force: true });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    keepThisPlatform(path.resolve(path.dirname(fileURLToPath(import.meta.url)), ".."));
  } catch (error) {
    // Larger than it need be is no reason to fail an installation.
    process.stderr.write(`orbweaver: libraries of other platforms stay (${error.message})\n`);
  }
}
