/**
 * @file Whether a downloaded archive is the release's, by the SHA-256 sums that the package pins.
 *
 * `tools/temporal-server/checksums.txt` has the lines of the release's own checksums.txt, in the form of `sha256sum`. An archive without
 * a line, or with another sum, is refused unopened; the search then goes on with the build from pinned modules.
 */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { readFile } from "node:fs/promises";

export type ChecksumCheck =
  { readonly kind: "fits" } | { readonly kind: "refused"; readonly reason: string };

/** Checks `archive` against the line for `assetName` in the file of sums. */
export async function checkArchive(
  archive: string,
  assetName: string,
  checksumsFile: string,
): Promise<ChecksumCheck> {
  const want = parseChecksums(await readFile(checksumsFile, "utf8")).get(assetName);
  if (want === undefined) {
    return { kind: "refused", reason: `${checksumsFile} has no checksum of ${assetName}` };
  }
  const got = await sha256Of(archive);
  if (got === want) return { kind: "fits" };
  return {
    kind: "refused",
    reason: `${assetName} has SHA-256 ${got}, but the pinned one is ${want}; the archive was not opened`,
  };
}

/** Asset name → lower-case hexadecimal SHA-256. */
function parseChecksums(text: string): ReadonlyMap<string, string> {
  const lines = text.matchAll(/^([0-9a-f]{64}) [ *](\S+)$/gm);
  return new Map(Array.from(lines, ([, sum = "", name = ""]) => [name, sum]));
}

/** In lower-case hexadecimal digits; reads the file as a stream. */
export async function sha256Of(file: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(file)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}
