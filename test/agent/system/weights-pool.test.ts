/** @file The weights pool of a host: a folder for each tenant and user, within a budget, and nothing of what a launch leaves there is believed. */

import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { MOST_SERVICES, serviceMark, wordMark } from "../../../domain/lease/kept-weights.ts";
import { openWeightsPool, removeLeftPools } from "../../../agent/system/weights-pool.ts";

const NOW_MS = 1_000_000_000;
let folder = "";
let stateDir = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "orbweaver-pool-"));
  stateDir = join(folder, "host");
  mkdirSync(stateDir);
});
afterEach(() => rmSync(folder, { recursive: true }));

const poolOf = (budgetBytes: number, dir = stateDir) =>
  openWeightsPool({ stateDir: dir, budgetBytes, memoryDir: folder });

function leave(area: string, key: string, { bytes = 100, usedAtMs = NOW_MS }): void {
  writeFileSync(join(area, `${key}.0.onnx.weights`), "w".repeat(bytes));
  writeFileSync(join(area, `${key}.json`), "");
  utimesSync(join(area, `${key}.json`), new Date(usedAtMs), new Date(usedAtMs));
}

const areaOf = (budget: number, tenant = "lab", uid?: number): string => {
  const area = poolOf(budget).area(tenant, uid);
  if (area === undefined) throw new Error("there is no area");
  return area;
};

describe("a weights pool", () => {
  it("has a folder for each tenant and each user of its launches, which nobody else may enter", () => {
    const areas = [areaOf(1), areaOf(1, "other"), areaOf(1, "lab", 1_000), areaOf(1, "lab", 1_001)];
    expect(new Set(areas).size).toBe(4);
    for (const area of areas) expect(lstatSync(area).mode & 0o777).toBe(0o700);
    expect(areaOf(1)).toBe(areas[0]);
  });

  it("removes what was used least lately until the budget is kept, of whichever tenant", () => {
    const [lab, other] = [areaOf(250), areaOf(250, "other")];
    leave(lab, "old", { usedAtMs: NOW_MS - 3_000 });
    leave(other, "older", { usedAtMs: NOW_MS - 4_000 });
    leave(other, "new", { usedAtMs: NOW_MS - 1_000 });
    leave(lab, "newest", {});
    const pool = poolOf(250);
    pool.trim(NOW_MS);
    expect([...readdirSync(lab), ...readdirSync(other)].sort()).toEqual(
      ["new.0.onnx.weights", "new.json", "newest.0.onnx.weights", "newest.json"].sort(),
    );
    expect(pool.use()).toEqual({ models: 2, bytes: 200, budgetBytes: 250, services: [] });
  });

  it("tells which services used what it keeps, the last one first, by its own word of the tenant", () => {
    const [lab, other] = [areaOf(1_000), areaOf(1_000, "other", 1_000)];
    leave(lab, "a", { usedAtMs: NOW_MS - 2_000 });
    leave(other, "b", { usedAtMs: NOW_MS - 1_000 });
    const marked = (area: string, file: string): void => writeFileSync(join(area, file), "");
    marked(lab, `a.for-${wordMark("pictures")}`);
    marked(other, `b.for-${wordMark("pictures")}`);
    marked(other, "b.for-junk");
    // Of a model that is no more.
    marked(other, `c.for-${wordMark("words")}`);
    const want = ["other", "lab"].map((tenant) => serviceMark({ tenant, name: "pictures" }));
    expect(poolOf(1_000).use().services).toEqual(want);
    poolOf(150).trim(NOW_MS);
    expect(poolOf(150).use().services).toEqual(want.slice(0, 1));
    expect(readdirSync(lab)).toEqual([]);
  });

  it("tells of each tenant's services, however many another one has used since", () => {
    const [lab, many] = [areaOf(100_000), areaOf(100_000, "many")];
    leave(lab, "a", { usedAtMs: NOW_MS - 10_000 });
    const marks = ["pictures", "words"];
    for (const name of marks) writeFileSync(join(lab, `a.for-${wordMark(name)}`), "");
    for (let at = 0; at < MOST_SERVICES + 10; at += 1) {
      leave(many, `m${String(at)}`, { bytes: 1, usedAtMs: NOW_MS - at });
      writeFileSync(join(many, `m${String(at)}.for-${wordMark(String(at))}`), "");
    }
    const { services = [] } = poolOf(100_000).use();
    expect(services).toHaveLength(MOST_SERVICES);
    for (const name of marks) expect(services).toContain(serviceMark({ tenant: "lab", name }));
    expect(services[0]).toBe(serviceMark({ tenant: "many", name: "0" }));
    const last = String(MOST_SERVICES - 3);
    expect(services.at(-1)).toBe(serviceMark({ tenant: "many", name: last }));
  });

  it("takes a time to come for now", () => {
    const area = areaOf(150);
    leave(area, "a-forged", { usedAtMs: NOW_MS + 1_000_000 });
    leave(area, "b-true", { usedAtMs: NOW_MS });
    poolOf(150).trim(NOW_MS);
    expect(readdirSync(area)).toEqual(["b-true.0.onnx.weights", "b-true.json"]);
  });

  it("leaves what is being written, and removes what nobody finished", () => {
    const area = areaOf(1_000);
    for (const [key, atMs] of [
      ["going", NOW_MS - 1_000],
      ["left", NOW_MS - 700_000],
    ] as const) {
      for (const name of [`${key}.writing`, `${key}.0.onnx`]) {
        writeFileSync(join(area, name), "w");
        utimesSync(join(area, name), new Date(atMs), new Date(atMs));
      }
    }
    const pool = poolOf(1_000);
    expect(pool.use().models).toBe(0);
    pool.trim(NOW_MS);
    expect(readdirSync(area).sort()).toEqual(["going.0.onnx", "going.writing"]);
  });

  it("follows no link that a launch has left, and survives folders", () => {
    const area = areaOf(0);
    const precious = join(folder, "precious");
    mkdirSync(precious);
    writeFileSync(join(precious, "kept.txt"), "kept");
    symlinkSync(precious, join(area, "link.json"));
    mkdirSync(join(area, "folder.json"));
    leave(area, "mine", {});
    poolOf(0).trim(NOW_MS);
    expect(readdirSync(area)).toEqual(["folder.json"]);
    expect(existsSync(join(precious, "kept.txt"))).toBe(true);
  });

  it("lists and removes nothing in a folder of its name that others may write to, or through a link", () => {
    const precious = join(folder, "precious");
    mkdirSync(precious);
    writeFileSync(join(precious, "kept.txt"), "kept");
    const area = areaOf(0);
    const pool = dirname(area);
    symlinkSync(precious, join(pool, "planted"));
    poolOf(0).trim(NOW_MS);
    rmSync(stateDir, { recursive: true });
    removeLeftPools(folder);
    expect(existsSync(join(precious, "kept.txt"))).toBe(true);
    mkdirSync(stateDir);
    leave(areaOf(0), "mine", {});
    for (const open of [pool, dirname(pool)]) {
      chmodSync(open, 0o777);
      poolOf(0).trim(NOW_MS);
      rmSync(stateDir, { recursive: true });
      removeLeftPools(folder);
      mkdirSync(stateDir);
      expect(poolOf(0).use().models).toBe(0);
      expect(readdirSync(area)).toHaveLength(2);
      chmodSync(open, 0o711);
    }
  });

  it("takes no time to come for that of one who writes now", () => {
    const area = areaOf(1_000);
    writeFileSync(join(area, "forged.writing"), "w");
    utimesSync(join(area, "forged.writing"), new Date(NOW_MS * 2), new Date(NOW_MS * 2));
    poolOf(1_000).trim(NOW_MS);
    expect(readdirSync(area)).toEqual([]);
  });

  it("is removed by the next agent when its host's state folder is gone, and not before", () => {
    const gone = join(folder, "gone");
    mkdirSync(gone);
    const former = poolOf(1_000, gone).area("lab") ?? "";
    leave(former, "model", {});
    areaOf(1_000);
    expect(readdirSync(former)).toHaveLength(2);
    rmSync(gone, { recursive: true });
    areaOf(1_000);
    expect(existsSync(former)).toBe(false);
  });

  it("is none where another user has taken its name, or the machine has no such memory", () => {
    const taken = join(folder, `orbweaver-weights-${String(process.getuid?.() ?? 0)}`);
    symlinkSync(stateDir, taken);
    expect(poolOf(1_000).area("lab")).toBeUndefined();
    const nowhere = openWeightsPool({
      stateDir,
      budgetBytes: 1,
      memoryDir: join(folder, "nowhere"),
    });
    expect(nowhere.area("lab")).toBeUndefined();
    nowhere.trim(NOW_MS);
    expect(nowhere.use().models).toBe(0);
  });
});
