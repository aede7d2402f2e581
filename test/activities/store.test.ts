/** @file The directory store: what is put comes back, or is missed by name. */

import { mkdtempSync, readdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { directoryStore } from "../../activities/store.ts";

const folder = (): string => mkdtempSync(path.join(tmpdir(), "orbweaver-store-"));

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
