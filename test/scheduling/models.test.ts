/** @file The ledger's note of which bandwidth model serves in which cluster, and the note that a grant carries of its bandwidth. */
import { expect, test } from "vitest";
import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import { clusterId } from "../../domain/values/ids.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { applyPlan, ask, fleetShape, inbox, readyLedger } from "./builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}] }]);
const READY = readyLedger(SHAPE);
const C0 = clusterId("c0");

const word = (generation: number, cluster = "c0") => ({
  kind: "model",
  cluster,
  version: `v${generation}`,
  generation,
});
const throughJson = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as ReturnType<typeof packLedger>);

test.each([
  { name: "the newest word counts", words: [word(1), word(2)], want: "v2" },
  { name: "a late word of an earlier one changes nothing", words: [word(2), word(1)], want: "v2" },
  { name: "said twice is said once", words: [word(1), word(1)], want: "v1" },
])("$name", ({ words, want }) => {
  const { ledger } = inbox(READY, words);
  expect(ledger.models?.get(C0)?.version).toBe(want);
  expect(throughJson(ledger)).toEqual(ledger);
});

test("a word changes no plan by itself, and one that says nothing new leaves the very same ledger", () => {
  const once = inbox(READY, [word(1)]);
  expect(once.needsDecision).toBe(false);
  expect(inbox(once.ledger, [word(1)]).ledger).toBe(once.ledger);
});

test.each([
  { name: "a cluster that the fleet lacks", entry: word(1, "c9"), want: "HostUnknown" },
  { name: "no generation", entry: { kind: "model", cluster: "c0", version: "v1" } },
  { name: "a version with white space", entry: { ...word(1), version: "v 1" } },
])("a word of $name is a dead letter", ({ entry, want = "EntryMalformed" }) => {
  const { ledger } = inbox(READY, [entry]);
  expect(ledger.deadLetters.map(({ code }) => code)).toEqual([want]);
  expect(ledger.models).toBeUndefined();
});

test("a cluster that leaves the fleet takes its model along", () => {
  const { ledger } = inbox(READY, [word(1), word(1, "c1")]);
  const shape = { ...SHAPE, clusters: SHAPE.clusters.slice(1) };
  const after = apply(ledger, { kind: "fleet-changed", shape, nowMs: 0 }).ledger;
  expect([...(after.models?.keys() ?? [])]).toEqual(["c1"]);
});

test.each<{ name: string; bandwidth: BandwidthNote }>([
  {
    name: "all that a search says",
    bandwidth: {
      predictedGbs: 97.25,
      bestGbs: 98,
      compactGbs: 41.5,
      model: "v7",
      method: "searched",
    },
  },
  { name: "only a reason", bandwidth: { method: "compact", fallback: "no model serves here" } },
])("a grant keeps $name until it is delivered", ({ bandwidth }) => {
  const asked = inbox(READY, [ask({ job: "a", gpus: 2 })]).ledger;
  const plan = decide(asked, 0);
  const items = plan.items.map((item) => ({ ...item, bandwidth }));
  const { ledger } = applyPlan(asked, { ...plan, items });
  expect([...ledger.outbox.values()].map((grant) => grant.bandwidth)).toEqual([bandwidth]);
  expect(throughJson(ledger)).toEqual(ledger);
});
