/**
 * @file Makes `release-1.json.br` again: the compiled release before rules 2, for checkouts that lack its commit.
 *
 * It builds the release from its commit (so it needs a full clone) and packs what runs, without types, source maps and tests: a JSON
 * object of texts by path, compressed. `node test/upgrade/pack-release.mjs`
 */

import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { brotliCompressSync, constants } from "node:zlib";
import { buildFromCommit, PACKED } from "./old-release.mjs";

const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-pack-"));
try {
  if (!buildFromCommit(folder)) throw new Error("this checkout lacks the release's commit");
  const files = ["package.json", ...filesUnder("dist")].sort();
  const texts = Object.fromEntries(
    files
      .filter((file) => /\.(c?js|json)$|\.stamp$/.test(file))
      .map((file) => [file, withoutMap(readFileSync(path.join(folder, file), "utf8"))]),
  );
  const plain = Buffer.from(JSON.stringify(texts));
  const packed = brotliCompressSync(plain, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: 11,
      [constants.BROTLI_PARAM_LGWIN]: 24,
      [constants.BROTLI_PARAM_SIZE_HINT]: plain.length,
    },
  });
  writeFileSync(PACKED, packed);
  process.stdout.write(
    `${Object.keys(texts).length} files, ${plain.length} bytes, packed ${packed.length}\n`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}

function filesUnder(dir) {
  return readdirSync(path.join(folder, dir)).flatMap((name) => {
    const file = `${dir}/${name}`;
    return statSync(path.join(folder, file)).isDirectory() ? filesUnder(file) : [file];
  });
}

/** The bundle carries its sources a second time, as a map without which the SDK does not load it: an empty one takes its place. */
function withoutMap(text) {
  const map = JSON.stringify({ version: 3, sources: [], names: [], mappings: "" });
  const inline = /(\n\/\/# sourceMappingURL=data:[^,]*;base64,)\S+\s*$/;
  return text.replace(inline, (_, start) => `${start}${Buffer.from(map).toString("base64")}\n`);
}
