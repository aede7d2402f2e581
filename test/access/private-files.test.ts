/** @file Files that root writes in the folder of another user are that user's. */

import {
  chownSync,
  linkSync,
  lstatSync,
  mkdtempSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { giveToFolderOwner } from "../../access/private-files.ts";
import { writeNotedEnds } from "../../cli/house/noted-ends.ts";
import { openHistory } from "../../console/history/database.ts";
import { isRoot } from "../support/as-user.ts";

const NOBODY = 65_534;
let folder = "";
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "orbweaver-given-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const ownerOf = (name: string): number => lstatSync(path.join(folder, name)).uid;

describe.skipIf(!isRoot)("as root", () => {
  it("a note of ended jobs and a new history database belong to the owner of the folder, and are private", async () => {
    chownSync(folder, NOBODY, NOBODY);
    writeNotedEnds(folder, new Map([["train", { atMs: 1, isProven: true }]]));
    const database = await openHistory(path.join(folder, "history.db"), { isNew: true });
    database.write({ leases: [], due: [] });
    for (const name of ["ended-jobs.json", "history.db", "history.db-wal", "history.db-shm"]) {
      expect([name, ownerOf(name)]).toEqual([name, NOBODY]);
      expect([name, lstatSync(path.join(folder, name)).mode & 0o077]).toEqual([name, 0]);
    }
    database.close();
  });

  it("nothing is given through a link, nor where the folder is root's own", () => {
    const target = path.join(folder, "target");
    writeFileSync(target, "");
    giveToFolderOwner(target);
    expect(ownerOf("target")).toBe(0);
    chownSync(folder, NOBODY, NOBODY);
    symlinkSync(target, path.join(folder, "link"));
    giveToFolderOwner(path.join(folder, "link"));
    expect([ownerOf("target"), ownerOf("link")]).toEqual([0, 0]);
    linkSync(target, path.join(folder, "name"));
    giveToFolderOwner(path.join(folder, "name"));
    expect(ownerOf("target")).toBe(0);
  });
});

it("a file of another user's process stays its own", () => {
  writeFileSync(path.join(folder, "mine"), "");
  giveToFolderOwner(path.join(folder, "mine"));
  expect(ownerOf("mine")).toBe(process.getuid?.());
});
