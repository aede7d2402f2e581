/** @file Parsing inbox entries: what is read is what was sent, without unknown fields; what is wrong is refused with its path. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { MAX_REQUEST_ENTRY_BYTES } from "../../../domain/lease/gang-request.ts";
import { MAX_ENTRY_BYTES, readEntry } from "../../../scheduling/ledger/inbox-entry.ts";
import { OLDEST_RULES, PRICED_RULES, RESOURCE_RULES } from "../../../scheduling/ledger/ledger.ts";
import { entries } from "../arbitraries.ts";
import { ask, end, fleetShape, gpus, hello } from "../builders.ts";

const fact = {
  id: "lease-7",
  token: 7,
  jobId: "a",
  runId: "r",
  seq: 1,
  class: "training",
  tenant: "t",
  gpus: gpus(["c0/h0", 3]),
  grantedAtMs: 5,
  requestedAtMs: 4,
};
const link = { from: "x", to: "y", checkedAtMs: 1, validUntilMs: 9 };
const model = { kind: "model", cluster: "c0", version: "v1", generation: 1 };

describe("an entry that is right", () => {
  test("is read as it was sent, with its text", () => {
    const drawn = entries(fleetShape([{ hosts: [{}, {}] }, {}]));
    fc.assert(
      fc.property(drawn, (entry) => {
        const json = JSON.stringify(entry);
        expect(readEntry(JSON.parse(json))).toEqual({ kind: "read", entry, json });
      }),
    );
  });

  test.each([
    { kind: "assert", lease: fact },
    { kind: "silence", hosts: ["c0/h0"], epoch: "e1" },
    { kind: "checkpointed", marks: [{ lease: "lease-7", atMs: 12 }] },
    model,
    { kind: "links", links: [link, { ...link, outageSinceMs: 3, isLocal: true }] },
    { ...end("a"), unconfirmedHosts: "all", lease: "lease-7" },
    {
      ...hello(["c0/h0"]),
      running: [{ host: "c0/h0", lease: "lease-7", token: 7, fact }],
      terms: { fenceMs: 600_000 },
    },
  ])("of kind $kind is read with all its fields", (entry) => {
    expect(readEntry(entry)).toMatchObject({ kind: "read", entry });
  });

  test.each([
    { rules: RESOURCE_RULES - 1, want: undefined },
    { rules: RESOURCE_RULES, want: { cpus: 2, memoryGiB: 7.5 } },
  ])("takes of its hosts under rules $rules: $want", ({ rules, want }) => {
    const resources = { cpus: 2, memoryGiB: 7.5, colour: 1 };
    const read = readEntry(ask({ constraints: { resources } }), rules);
    const asserted = readEntry({ kind: "assert", lease: { ...fact, resources } }, rules);
    if (read.kind !== "read" || read.entry.kind !== "request") throw new Error("refused");
    if (asserted.kind !== "read" || asserted.entry.kind !== "assert") throw new Error("refused");
    expect(read.entry.request.constraints.resources).toEqual(want);
    expect(asserted.entry.lease.resources).toEqual(want);
  });

  test.each([
    { rules: PRICED_RULES - 1, want: undefined },
    { rules: PRICED_RULES, want: "{}" },
  ])("says what it trains under rules $rules: $want", ({ rules, want }) => {
    const read = readEntry(ask({ constraints: { training: "{}" } }), rules);
    if (read.kind !== "read" || read.entry.kind !== "request") throw new Error("refused");
    expect(read.entry.request.constraints.training).toBe(want);
  });

  test("is refused where it takes less than nothing", () => {
    const entry = ask({ constraints: { resources: { cpus: -1 } } });
    expect(readEntry(entry)).toMatchObject({ kind: "refused", code: "EntryMalformed" });
  });

  test("loses the fields that nobody knows", () => {
    const read = readEntry({ ...model, colour: "red", __proto__: { generation: 2 } });
    expect(read).toMatchObject({ kind: "read", entry: model });
    if (read.kind === "read") expect(Object.keys(read.entry)).not.toContain("colour");
  });

  test("has the hosts of its lease in the order of their ids", () => {
    const unsorted = { ...fact, gpus: gpus(["c1/h0", 1], ["c0/h0", 1]) };
    expect(readEntry({ kind: "assert", lease: unsorted })).toMatchObject({
      entry: { lease: { gpus: gpus(["c0/h0", 1], ["c1/h0", 1]) } },
    });
  });

  test("has no minus zero, which JSON does not know", () => {
    const read = readEntry({ kind: "checkpointed", marks: [{ lease: "lease-7", atMs: -0 }] });
    expect(read).toMatchObject({ entry: { marks: [{ atMs: 0 }] } });
  });
});

describe("an entry that is wrong", () => {
  test.each([
    { entry: { kind: "evict" }, want: "entry.kind" },
    { entry: { ...model, generation: 0 }, want: "entry.generation" },
    { entry: { ...model, version: "v 1" }, want: "entry.version" },
    { entry: ask({ gpus: 2, gang: { min: 3 } }), want: "entry.request.gang.min" },
    { entry: ask({ slots: 1.5 }), want: "entry.request.slots" },
    { entry: { kind: "assert", lease: { ...fact, token: 8 } }, want: "entry.lease.id" },
    { entry: { kind: "assert", lease: { ...fact, gpus: [] } }, want: "entry.lease.gpus" },
    {
      entry: { kind: "assert", lease: { ...fact, gpus: gpus(["c0/h0", 2 ** 30]) } },
      want: "entry.lease.gpus[0].mask",
    },
    {
      entry: { kind: "links", links: [link, { ...link, validUntilMs: 0 }] },
      want: "entry.links[1].validUntilMs",
    },
    { entry: { kind: "vacated", lease: "lease-07", hosts: [] }, want: "entry.lease" },
  ])("is refused with the path $want", ({ entry, want }) => {
    const read = readEntry(entry);
    expect(read).toMatchObject({ kind: "refused", code: "EntryMalformed" });
    if (read.kind === "refused") expect(read.message).toContain(`: ${want} is `);
  });

  test.each([
    { name: "a request", most: MAX_REQUEST_ENTRY_BYTES, entry: (name: string) => ask({ name }) },
    {
      name: "any other entry",
      most: MAX_ENTRY_BYTES,
      entry: (note: string) => ({ ...model, note }),
    },
  ])("$name of one byte too many is refused, counted in UTF-8", ({ most, entry }) => {
    const rest = JSON.stringify(entry("")).length;
    const letters = Math.ceil((most + 1 - rest) / 2);
    expect(readEntry(entry("é".repeat(letters)))).toMatchObject({ code: "EntryTooLarge" });
    expect(readEntry(entry("e".repeat(letters)))).not.toMatchObject({ code: "EntryTooLarge" });
  });

  test("is refused even where it has no JSON", () => {
    const circle: { self?: unknown } = {};
    circle.self = circle;
    for (const value of [undefined, 1n, () => 0])
      expect(readEntry(value)).toMatchObject({ kind: "refused", code: "EntryMalformed", json: "" });
    expect(readEntry(circle, OLDEST_RULES)).toMatchObject({ code: "EntryMalformed", json: "" });
    const endless = readEntry(circle);
    expect(endless).toMatchObject({ kind: "refused", code: "EntryTooLarge" });
    expect(endless.json).toHaveLength(500);
  });
});
