/** @file The store of working folders: parts by their hash, for a time and within a bound. */

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { describe, expect, it } from "vitest";
import { folderStore, partIn } from "../../api/folders.ts";
import { FOLDER_PART_BYTES } from "../../streams/folder-pack.ts";

const DAY_MS = 86_400_000;
const OWNER = { name: "own", isOwner: true };
/** A request as far as the store reads it. */
const bodyOf = (bytes: Buffer): IncomingMessage => Readable.from([bytes]) as IncomingMessage;
const hashOf = (bytes: Buffer): string => createHash("sha256").update(bytes).digest("hex");

describe("the store of folders", () => {
  it("takes a part once under its hash", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-parts-"));
    const store = folderStore({ folder });
    const bytes = Buffer.from("part");
    const taken = { kind: "taken", hash: hashOf(bytes) };
    expect(await store.take(bodyOf(bytes), OWNER)).toEqual(taken);
    expect(await store.take(bodyOf(bytes), OWNER)).toEqual(taken);
    expect(readdirSync(folder).filter((name) => !name.includes("."))).toEqual([hashOf(bytes)]);
  });

  it("refuses a part that is too long, and one for which there is no room", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-parts-"));
    const store = folderStore({ folder, mostBytes: 6 });
    expect(await store.take(bodyOf(Buffer.alloc(FOLDER_PART_BYTES + 1)), OWNER)).toMatchObject({
      kind: "refused",
      status: 413,
    });
    expect(await store.take(bodyOf(Buffer.from("four")), OWNER)).toMatchObject({ kind: "taken" });
    expect(await store.take(bodyOf(Buffer.from("more")), OWNER)).toMatchObject({ status: 507 });
  });

  it("lets no sender fill it for all others, also after a restart", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-parts-"));
    const [eve, ada] = ["eve", "ada"].map((name) => ({ name, isOwner: false }));
    if (eve === undefined || ada === undefined) throw new Error("nobody");
    const store = folderStore({ folder, mostBytes: 40 });
    expect(await store.take(bodyOf(Buffer.from("eve's 8b")), eve)).toMatchObject({ kind: "taken" });
    const more = Buffer.from("more");
    expect(await store.take(bodyOf(more), eve)).toMatchObject({ status: 507 });
    const again = folderStore({ folder, mostBytes: 40 });
    expect(await again.take(bodyOf(more), eve)).toMatchObject({ status: 507 });
    expect(await again.take(bodyOf(more), ada)).toMatchObject({ kind: "taken" });
    // What is there already is anybody's to name.
    expect(await again.take(bodyOf(more), eve)).toMatchObject({ kind: "taken" });
    expect(await again.take(bodyOf(Buffer.from("the owner's 20 bytes")), OWNER)).toMatchObject({
      kind: "taken",
    });
  });

  it("does not count what could not be written", async () => {
    const dir = mkdtempSync(join(tmpdir(), "orbweaver-parts-"));
    const inTheWay = join(dir, "file");
    writeFileSync(inTheWay, "");
    const store = folderStore({ folder: inTheWay, mostBytes: 16 });
    const bytes = Buffer.from("four");
    const eve = { name: "eve", isOwner: false };
    for (let tries = 0; tries < 5; tries += 1)
      await expect(store.take(bodyOf(bytes), eve)).rejects.toThrow();
    rmSync(inTheWay);
    expect(await store.take(bodyOf(bytes), eve)).toMatchObject({ kind: "taken" });
  });

  it("forgets what was neither sent nor read for long, and has room again", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-parts-"));
    let nowMs = Date.now();
    const store = folderStore({ folder, mostBytes: 8, keptMs: 5 * DAY_MS, nowMs: () => nowMs });
    const [old, young] = [Buffer.from("old."), Buffer.from("yng.")];
    await store.take(bodyOf(old), OWNER);
    await store.take(bodyOf(young), OWNER);
    nowMs += 4 * DAY_MS;
    await store.take(bodyOf(young), OWNER);
    nowMs += 2 * DAY_MS;
    expect(await store.take(bodyOf(Buffer.from("new.")), OWNER)).toMatchObject({ kind: "taken" });
    expect(readdirSync(folder)).not.toContain(hashOf(old));
    expect(readdirSync(folder)).toContain(hashOf(young));
  });

  it.each(["/v1/folders", "/v1/folders/../../etc", `/v1/folders/${"A".repeat(64)}`])(
    "%s names no part",
    (path) => {
      expect(partIn(path)).toBeUndefined();
    },
  );
});
