/** @file Level 3, a job's user on an agent of root: what it swaps while the agent removes its folders leads the removal nowhere else. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { nodeFiles } from "../../../agent/system/node-files.ts";
import { isRoot, NOBODY } from "../../support/as-user.ts";
import { removeFolder } from "../../support/remove-folder.ts";

let dir = "";
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-files-"));
  chmodSync(dir, 0o755);
});
afterEach(() => removeFolder(dir));

it("removes a file, a link without what it leads to, and a folder with all that is in it", () => {
  const kept = join(dir, "kept");
  const gone = join(dir, "gone");
  mkdirSync(kept);
  mkdirSync(join(gone, "a/b"), { recursive: true });
  writeFileSync(join(kept, "file"), "");
  writeFileSync(join(gone, "a/file"), "");
  symlinkSync(kept, join(gone, "a/b/link"));
  symlinkSync(kept, join(dir, "link"));
  for (const name of ["gone", "link", "none", "gone/below"]) nodeFiles.remove(join(dir, name));
  expect([gone, join(dir, "link")].map((path) => existsSync(path))).toEqual([false, false]);
  expect(existsSync(join(kept, "file"))).toBe(true);
  nodeFiles.remove(join(kept, "file"));
  expect(existsSync(join(kept, "file"))).toBe(false);
});

/** No text, so read as such it is another name. */
const NO_TEXT = Buffer.from([0x66, 0xff, 0x66]);

it("removes a name that is no text, however deep it lies", () => {
  const gone = join(dir, "gone");
  const deep = join(gone, ...Array.from({ length: 40 }, () => "d"));
  mkdirSync(deep, { recursive: true });
  writeFileSync(Buffer.concat([Buffer.from(`${deep}/`), NO_TEXT]), "");
  nodeFiles.remove(gone);
  expect(existsSync(gone)).toBe(false);
});

const COUNT = 400;
const names = (): readonly string[] =>
  Array.from({ length: COUNT }, (_, at) => `file-${String(at)}`);
const filled = (path: string): void => {
  mkdirSync(path);
  for (const name of names()) writeFileSync(join(path, name), "");
};
/** Puts a link in the place of a folder once somebody begins to remove what is in it. */
const SWAP = `const fs = require("fs"); const [at, target, count] = process.argv.slice(1);
console.log("begun");
while (fs.readdirSync(at).length === Number(count));
fs.renameSync(at, at + "-aside"); fs.symlinkSync(target, at); console.log("swapped");`;

describe.runIf(isRoot)("a folder of another user", () => {
  it("is removed without what a link leads to that its user exchanges it for meanwhile", async () => {
    const victim = join(dir, "victim");
    const scratch = join(dir, "scratch");
    const inner = join(scratch, "inner");
    filled(victim);
    mkdirSync(scratch);
    filled(inner);
    for (const each of [scratch, inner]) chownSync(each, NOBODY, NOBODY);
    const swapper = spawn(process.execPath, ["-e", SWAP, inner, victim, String(COUNT)], {
      stdio: ["ignore", "pipe", "inherit"],
      ...{ uid: NOBODY, gid: NOBODY, cwd: "/" },
    });
    const ended = once(swapper, "close");
    try {
      await once(swapper.stdout, "data");
      nodeFiles.remove(scratch);
    } finally {
      swapper.kill("SIGKILL");
      await ended;
    }
    expect(readdirSync(victim)).toHaveLength(COUNT);
  });
});
