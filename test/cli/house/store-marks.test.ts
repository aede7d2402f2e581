/** @file Mark and sweep of the store: what histories or marked values name stays, whatever refers to what; only old values to which nothing refers go. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import fc from "fast-check";
import { createHash } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { directoryStore, lobbyStoreDir } from "../../../activities/store.ts";
import { createLobbyStore } from "../../../activities/lobby-store.ts";
import { collect, endFormer } from "../../../cli/house/collect.ts";
import { planOf, type CollectionPlan, type HousePlace } from "../../../cli/house/plan.ts";
import { realDisk, type Disk } from "../../../cli/house/remove.ts";
import { DEFAULT_KEEP } from "../../../domain/fleet/keep.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { caseCount } from "../../support/case-count.ts";
import { temporalOf, type ServedFleet } from "./served.ts";

const DAY_MS = 86_400_000;
const NOW_MS = Date.UTC(2027, 0, 31);
let stateDir = "";
beforeEach(() => void (stateDir = mkdtempSync(path.join(tmpdir(), "orbweaver-marks-"))));
afterEach(() => rmSync(stateDir, { recursive: true, force: true }));

const storeDir = (): string => path.join(stateDir, "store");
const fileOf = (sum: string): string => path.join(storeDir(), `${sum}.json`);
const aged = (file: string, days: number): void => {
  const seconds = (NOW_MS - days * DAY_MS) / 1_000;
  utimesSync(file, seconds, seconds);
};
const place = (): HousePlace => ({
  ...{ fleet: "f", stateDir, rules: DEFAULT_KEEP, state: undefined, nowMs: NOW_MS },
});
const readers = (served: Partial<ServedFleet>) => ({
  client: temporalOf({
    fleet: "f",
    jobs: new Map(),
    runs: [[{}]],
    lobbies: [],
    ...served,
  }) as Client,
  codecs: [],
  signal: new AbortController().signal,
});
const dueIn = (plan: CollectionPlan): readonly string[] =>
  plan.kinds
    .filter(({ what }) => what === "store")
    .flatMap(({ due }) => due.map(({ path: file }) => path.basename(file, ".json")));

/** A value whose text names others; returns its hash, of which no other value can have been made before. */
function put(names: readonly string[], salt: number): string {
  const text = JSON.stringify({ salt, names });
  const sum = createHash("sha256").update(text).digest("hex");
  mkdirSync(storeDir(), { recursive: true });
  writeFileSync(fileOf(sum), text);
  return sum;
}

describe("the store", () => {
  it("keeps what the ledger, former ledgers and later events name", async () => {
    const [now, former, event, spare, young] = [1, 2, 3, 4, 5].map((salt) => put([], salt));
    const torn = path.join(storeDir(), `.${spare ?? ""}.00000000-0000-0000-0000-000000000000`);
    writeFileSync(torn, "");
    aged(torn, 31);
    for (const sum of [now, former, event, spare]) aged(fileOf(sum ?? ""), 31);
    aged(fileOf(young ?? ""), 29);
    const asked = readers({
      runs: [[{ ledger: { detailsHash: former } }], [{ ledger: { detailsHash: now } }, { event }]],
    });
    const plan = await planOf(place(), asked);
    expect(plan.skipped).toEqual([]);
    expect(dueIn(plan)).toEqual([path.basename(torn), spare]);
    expect(await collect(plan, place(), { asked })).toMatchObject({ things: 2, failed: [] });
    expect(readdirSync(storeDir()).sort()).toEqual(
      [now, former, event, young].map((sum) => `${sum ?? ""}.json`).sort(),
    );
  });

  it("keeps the pages of a lobby's rows, which the directory alone names, however old", async () => {
    const folder = lobbyStoreDir(storeDir());
    const lobby = createLobbyStore(directoryStore(folder), () => undefined);
    const rows = Array.from({ length: 900 }, (_, at) => {
      const job = jobId(`j-${String(at).padStart(4, "0")}`);
      return [job, runId("r"), 1, "training", 0, at, 1, 0] as const;
    });
    const { directory } = await lobby.keepRows({ name: "rows", rows });
    const left = await lobby.keepRows({ name: "given up", rows: rows.slice(0, 10) });
    for (const name of readdirSync(folder)) aged(path.join(folder, name), 300);
    const asked = readers({ lobbies: [[{ runs: [{ directory, at: 3 }] }]] });
    const plan = await planOf(place(), asked);
    expect(dueIn(plan)).toHaveLength(2);
    expect(dueIn(plan)).toContain(left.directory);
    await collect(plan, place(), { asked });
    const loaded = await lobby.loadRows({ runs: [{ directory, at: 0 }], maxBytes: 10 ** 7 });
    expect(loaded).toMatchObject({ kind: "rows", rows: [{ length: 900 }] });
  });

  it("stays where a history cannot be read", async () => {
    aged(fileOf(put([], 1)), 90);
    const asked = readers({});
    const broken = { ...asked, codecs: [{ encode: never, decode: never }] };
    const plan = await planOf(place(), broken);
    expect(dueIn(plan)).toEqual([]);
    expect(plan.skipped.join()).toMatch(/the store stays: .*no key/);
  });

  it("stays where a payload is of an encoding that no codec here reads", async () => {
    const [now, spare] = [put([], 1), put([], 2)];
    for (const sum of [now, spare]) aged(fileOf(sum), 90);
    const asked = readers({ runs: [[{ detailsHash: now }]] });
    expect(dueIn(await planOf(place(), asked))).toEqual([spare]);
    const hidden: PayloadCodec = {
      encode: never,
      decode: (payloads) =>
        Promise.resolve(
          payloads.map((payload) => ({
            ...payload,
            metadata: { encoding: Buffer.from("binary/encrypted") },
          })),
        ),
    };
    const plan = await planOf(place(), { ...asked, codecs: [hidden] });
    expect(dueIn(plan)).toEqual([]);
    expect(plan.skipped.join()).toMatch(/the store stays: .*encoding binary\/encrypted/);
  });

  it("stays where the fleet of that name names none of its values: it is another fleet's", async () => {
    for (const salt of [1, 2]) aged(fileOf(put([], salt)), 90);
    const plan = await planOf(place(), readers({ runs: [[{ detailsHash: "0".repeat(64) }]] }));
    expect(dueIn(plan)).toEqual([]);
    expect(plan.skipped.join()).toMatch(/names none of its values/);
  });

  it("keeps a value that is put again between the plan and its removal", async () => {
    const store = directoryStore(storeDir());
    const sum = await store.put("tables of a former description");
    aged(fileOf(sum), 90);
    const asked = readers({ runs: [[{ detailsHash: put([], 1) }]] });
    const plan = await planOf(place(), asked);
    expect(dueIn(plan)).toEqual([sum]);
    await store.put("tables of a former description");
    expect(await collect(plan, place(), { asked })).toMatchObject({
      things: 0,
      needed: 1,
    });
    expect(await store.get(sum)).toBe("tables of a former description");
  });
});

const never = (): Promise<never> => Promise.reject(new Error("no key"));

/** Fails for good from the drawn step on, as a killed process does. */
function dying(after: number): Disk {
  let steps = 0;
  const step =
    <Given extends readonly string[]>(work: (...given: Given) => void) =>
    (...given: Given): void => {
      steps += 1;
      if (steps > after) throw new Error("dead");
      work(...given);
    };
  return {
    rename: step(realDisk.rename),
    remove: step(realDisk.remove),
    removeEmpty: step(realDisk.removeEmpty),
  };
}

describe("any store, any references, a death at any step", () => {
  it(
    "loses nothing that can be reached, and all else in the end",
    { timeout: 120_000 },
    async () => {
      const node = fc.record({
        /** Of those before it. */
        names: fc.array(fc.nat({ max: 11 }), { maxLength: 3 }),
        days: fc.integer({ min: 0, max: 60 }),
        root: fc.constantFrom("no", "no", "ledger", "former", "lobby"),
      });
      const nodes = fc.array(node, { minLength: 1, maxLength: 12 });
      await fc.assert(
        fc.asyncProperty(nodes, fc.nat({ max: 12 }), async (drawn, after) => {
          rmSync(storeDir(), { recursive: true, force: true });
          const sums: string[] = [];
          drawn.forEach(({ names, days }, at) => {
            const sum = put(
              names.flatMap((name) => sums[name] ?? []),
              at,
            );
            aged(fileOf(sum), days);
            sums.push(sum);
          });
          const rooted = (root: string): readonly string[] =>
            sums.filter((_, at) => drawn[at]?.root === root);
          const reached = new Set<number>();
          const reach = (at: number): void => {
            if (at >= drawn.length || reached.has(at)) return;
            reached.add(at);
            for (const name of drawn[at]?.names ?? []) if (name < at) reach(name);
          };
          drawn.forEach(({ root }, at) => root !== "no" && reach(at));
          const table = put([], -1);
          const asked = readers({
            runs: [[rooted("former")], [{ table, detailsHash: rooted("ledger") }]],
            lobbies: [[{}, rooted("lobby")]],
          });
          await collect(await planOf(place(), asked), place(), { asked, disk: dying(after) });
          endFormer(stateDir);
          const stay = [
            table,
            ...sums.filter((_, at) => reached.has(at) || (drawn[at]?.days ?? 0) <= 30),
          ];
          const there = (): readonly string[] => readdirSync(storeDir());
          for (const sum of stay) expect(there()).toContain(`${sum}.json`);
          await collect(await planOf(place(), asked), place(), { asked });
          expect([...there()].sort()).toEqual(stay.map((sum) => `${sum}.json`).sort());
        }),
        { numRuns: caseCount(90) },
      );
    },
  );
});
