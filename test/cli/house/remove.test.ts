/** @file A removal that dies at any step leaves a folder whole or gone, and what is needed again comes back. */

import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { putBack, realDisk, removeAsked, type Disk } from "../../../cli/house/remove.ts";

let folder = "";
let target = "";
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "orbweaver-remove-"));
  target = path.join(folder, "checkpoints");
  mkdirSync(path.join(target, "3"), { recursive: true });
  for (const name of ["3/a", "3/b", "4"]) writeFileSync(path.join(target, name), name);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const filesIn = (at: string): readonly string[] =>
  readdirSync(at, { recursive: true, encoding: "utf8" })
    .filter((name) => statSync(path.join(at, name)).isFile())
    .sort();
const WHOLE = ["3/a", "3/b", "4"];

/** A disk that fails from that step on; a removal dies half way. */
function dying(after: number): Disk & { readonly steps: () => number } {
  let steps = 0;
  const step =
    <Given extends readonly string[]>(
      work: (...given: Given) => void,
      half?: (at: string) => void,
    ) =>
    (...given: Given): void => {
      steps += 1;
      if (steps === after) half?.(given[0] ?? "");
      if (steps >= after) throw new Error("dead");
      work(...given);
    };
  return {
    steps: () => steps,
    rename: step(realDisk.rename),
    remove: step(realDisk.remove, (at) => rmSync(path.join(at, "3", "a"), { force: true })),
    removeEmpty: step(realDisk.removeEmpty),
  };
}

describe("a removal", () => {
  it("takes all or, where the answer is no, nothing", async () => {
    expect(await removeAsked(target, () => false)).toBe("needed");
    expect(filesIn(target)).toEqual(WHOLE);
    expect(await removeAsked(target, (aside) => filesIn(aside).length === 3)).toBe("removed");
    expect(readdirSync(folder)).toEqual([]);
    expect(await removeAsked(target, () => true)).toBe("missing");
  });

  it.each([1, 2, 3, 4])("that dies at step %i leaves it whole or gone", async (after) => {
    const disk = dying(after);
    const ended = await removeAsked(target, () => true, disk).catch(() => "dead");
    expect(ended).toBe(after <= 3 ? "dead" : "removed");
    putBack(folder);
    const left = readdirSync(folder);
    if (after <= 2) expect(filesIn(target)).toEqual(WHOLE);
    else expect(left).toEqual([]);
    if (after <= 2) expect(left).toEqual(["checkpoints"]);
  });

  it("that dies while it asks comes back into what was written meanwhile", async () => {
    const asked = removeAsked(target, () => {
      mkdirSync(path.join(target, "3"), { recursive: true });
      mkdirSync(path.join(target, "9"));
      writeFileSync(path.join(target, "9", "new"), "new");
      writeFileSync(path.join(target, "3", "b"), "newer");
      throw new Error("no server");
    });
    await expect(asked).rejects.toThrow("no server");
    expect(filesIn(target)).toEqual(["3/a", "3/b", "4", "9/new"]);
    expect(readFileSync(path.join(target, "3", "b"), "utf8")).toBe("newer");
    expect(readdirSync(folder)).toEqual(["checkpoints"]);
  });

  it("brings nothing back through a link that was put in its place meanwhile", async () => {
    const elsewhere = path.join(folder, "elsewhere");
    mkdirSync(elsewhere);
    const asked = removeAsked(target, () => {
      mkdirSync(target);
      symlinkSync(elsewhere, path.join(target, "3"));
      return false;
    });
    await expect(asked).rejects.toThrow("is there again, and not of this user");
    expect(readdirSync(elsewhere)).toEqual([]);
  });

  it("that another user's files end leaves the rest of what was begun to come back", () => {
    const named = (stage: string, name: string): string =>
      path.join(folder, `.${stage}.${name}.00000000-0000-4000-8000-000000000000`);
    mkdirSync(named("gone", "a"));
    renameSync(target, named("aside", "checkpoints"));
    const refusing: Disk = {
      ...realDisk,
      remove: () => {
        throw new Error("EACCES: permission denied");
      },
    };
    expect(putBack(folder, refusing)).toEqual({
      back: 1,
      failed: [`${named("gone", "a")}: EACCES: permission denied`],
    });
    expect(filesIn(target)).toEqual(WHOLE);
    expect(putBack(folder)).toEqual({ back: 0, failed: [] });
    expect(readdirSync(folder)).toEqual(["checkpoints"]);
  });

  it("leaves what other programs have named alone", () => {
    for (const name of [".aside.x", ".gone.mine", `.half.x.${"0".repeat(36)}`])
      writeFileSync(path.join(folder, name), "");
    expect(putBack(folder)).toEqual({ back: 0, failed: [] });
    expect(readdirSync(folder)).toHaveLength(4);
  });
});
