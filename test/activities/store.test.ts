/** @file The directory store: what is put comes back or is missed by name; what nothing refers to goes by age. */

import { mkdtempSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { directoryStore } from "../../activities/store.ts";

const folder = (): string => mkdtempSync(path.join(tmpdir(), "orbweaver-store-"));
const DAY_MS = 86_400_000;

describe("what was put", () => {
  it("comes back, and equal content is one file", async () => {
    const dir = folder();
    const store = directoryStore(path.join(dir, "new"));
    const value = { hosts: [["a/b", { gbs: 400.5 }]], text: "ä" };
    const hash = await store.put(value);
    expect(await store.put(value)).toBe(hash);
    expect(await store.get(hash)).toEqual(value);
    expect(readdirSync(path.join(dir, "new"))).toEqual([`${hash}.json`]);
  });

  it.each([["../../etc/passwd"], ["0".repeat(64)], [""]])("%j is not there", async (hash) => {
    expect(await directoryStore(folder()).get(hash)).toBeUndefined();
  });

  it.each(['{"gpus":9}', '{"gpus":', ""])(
    "damaged to %j is refused by the file's name",
    async (text) => {
      const dir = folder();
      const store = directoryStore(dir);
      const hash = await store.put({ gpus: 8 });
      writeFileSync(path.join(dir, `${hash}.json`), text);
      await expect(store.get(hash)).rejects.toMatchObject({
        code: "BAD_INPUT",
        message: expect.stringContaining(path.join(dir, `${hash}.json`)),
      });
    },
  );
});

it("what is old and not kept is discarded, and nothing else in the folder", async () => {
  const dir = folder();
  const store = directoryStore(dir);
  const [kept, old, young] = [await store.put("kept"), await store.put("old"), await store.put(1)];
  const other = await store.put(["a page of a lobby"]);
  const isOfKind = (value: unknown): boolean => !Array.isArray(value);
  const torn = `.${old}.00000000-0000-0000-0000-000000000000`;
  for (const name of [torn, "notes.txt"]) writeFileSync(path.join(dir, name), "");
  const nowMs = Date.now();
  const agedS = (nowMs - 31 * DAY_MS) / 1000;
  for (const name of [`${kept}.json`, `${old}.json`, `${other}.json`, torn, "notes.txt"])
    utimesSync(path.join(dir, name), agedS, agedS);
  expect(await store.discard({ isOfKind, keep: [kept], olderThanMs: 30 * DAY_MS, nowMs })).toBe(2);
  expect(readdirSync(dir).sort()).toEqual(
    [`${kept}.json`, "notes.txt", `${young}.json`, `${other}.json`].sort(),
  );
  const nowhere = directoryStore(path.join(dir, "none"));
  expect(await nowhere.discard({ isOfKind, keep: [], olderThanMs: 0, nowMs })).toBe(0);
});
