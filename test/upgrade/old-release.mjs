/**
 * @file The release before rules 2, ready to run: built from its commit, or unpacked where the checkout lacks the commit.
 *
 * It shares this checkout's packages, which have the same versions. A build takes half a minute.
 */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "../..");
/** The last commit before version 2 of the rules. */
export const OLD_COMMIT = "1e87064afcf9510b0c2fd2136a32abbf58ca28c2";
export const PACKED = path.join(ROOT, "test/upgrade/release-1.json.br");

/**
 * The folder of the release, and where it came from. `ORBWEAVER_OLD_RELEASE=packed` takes the packed one.
 * @returns {{ readonly root: string, readonly from: "commit" | "packed", readonly remove: () => void }}
 */
export function provideOldRelease() {
  const root = mkdtempSync(path.join(tmpdir(), "orbweaver-release-1-"));
  const isBuilt = process.env["ORBWEAVER_OLD_RELEASE"] !== "packed" && buildFromCommit(root);
  if (!isBuilt) unpack(root);
  return {
    root,
    from: isBuilt ? "commit" : "packed",
    remove: () => rmSync(root, { recursive: true, force: true }),
  };
}

/** False when the commit is not here. Fails when it does not build. */
export function buildFromCommit(root) {
  const archive = spawnSync("git", ["-C", ROOT, "archive", "--format=tar", OLD_COMMIT], {
    maxBuffer: 1 << 30,
  });
  if (archive.status !== 0) return false;
  const tar = spawnSync("tar", ["-x", "-C", root], { input: archive.stdout });
  if (tar.status !== 0)
    throw new Error(`the former release does not unpack: ${String(tar.stderr)}`);
  sharePackages(root);
  const build = spawnSync(process.execPath, [path.join(root, "tools/build.mjs")], {
    cwd: root,
    encoding: "utf8",
  });
  if (build.status !== 0) throw new Error(`the former release does not build: ${build.stderr}`);
  return true;
}

function unpack(root) {
  const texts = JSON.parse(brotliDecompressSync(readFileSync(PACKED)).toString("utf8"));
  for (const [file, text] of Object.entries(texts)) {
    const at = path.join(root, file);
    mkdirSync(path.dirname(at), { recursive: true });
    writeFileSync(at, withoutMapNames(text), { mode: 0o755 });
  }
  sharePackages(root);
}

/** The maps that programs name are not packed, and who loads the programs complains of each. */
const withoutMapNames = (text) => text.replace(/^\/\/# sourceMappingURL=(?!data:)\S+\n?/gm, "");

/** Where the packages are: in this checkout, or wherever its link leads. */
function sharePackages(root) {
  symlinkSync(path.join(ROOT, "node_modules"), path.join(root, "node_modules"));
}
