/** @file What the console keeps over time: whose a host's GPUs were, against the ledger at each instant, and the shares of tenants. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Folded } from "../../console/follow/fleet-run.ts";
import { openFollowedRun } from "../../console/follow/followed-run.ts";
import { createLeaseSpans } from "../../console/past/lease-spans.ts";
import { createShareSamples } from "../../console/past/share-samples.ts";
import type { HostSpan } from "../../page/wire.ts";
import { queueOrder } from "../../scheduling/explain/queue-order.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { foldedOf } from "../support/recorded-fleet.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
/** It holds a lease that was freed and that its host reported once more: its second time has the date of its grant. */
const REPAIRED = "fleet.repaired.json";
const files = readdirSync(FOLDER).filter(
  (file) => /^fleet\..*\.json$/.test(file) && file !== REPAIRED,
);
const codecs = createConverters().worker.payloadCodecs ?? [];

async function recorded(file: string): Promise<{
  readonly opened: Ledger;
  readonly startedAtMs: number;
  readonly folded: readonly Folded[];
}> {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));
  const events = history.events ?? [];
  const run = await openFollowedRun("run-1", events[0] ?? {}, codecs);
  const { startedAtMs } = run;
  const opened = run.ledger();
  return { opened, startedAtMs, folded: await foldedOf(run, events) };
}

/** `lease mask` of each lease on the host. */
const heldOn = (host: string, { leases }: Ledger): readonly string[] =>
  [...leases.values()]
    .flatMap((lease) =>
      takenGpus(lease)
        .filter((part) => part.host === host)
        .map(({ mask }) => `${lease.id} ${String(mask)}`),
    )
    .sort();

function heldBy(spans: readonly HostSpan[], ms: number): readonly string[] {
  const masks = new Map<string, number>();
  for (const { lease, mask, fromMs, toMs = Infinity } of spans)
    if (fromMs <= ms && ms < toMs) masks.set(lease, (masks.get(lease) ?? 0) | mask);
  return [...masks].map(([lease, mask]) => `${lease} ${String(mask)}`).sort();
}

describe("a host's leases over time", () => {
  it.each(files)("are those of the ledger at each instant of %s", async (file) => {
    const { opened, startedAtMs, folded } = await recorded(file);
    const spans = createLeaseSpans();
    spans.begin(startedAtMs);
    for (const one of folded) spans.add(one);
    const last = folded.at(-1)?.ledger ?? opened;
    // A plan has the time at which it was decided: what was folded meanwhile has later ones.
    const seen = folded.filter(({ event }, at) =>
      folded.slice(at + 1).every((later) => later.event.nowMs > event.nowMs),
    );
    expect(seen.length).toBeGreaterThan(0);
    // A lost ledger learns of leases later than they were granted.
    const learnt = new Map<string, number>([...opened.leases.keys()].map((id) => [id, 0]));
    for (const { event, ledger } of folded)
      for (const id of ledger.leases.keys()) if (!learnt.has(id)) learnt.set(id, event.nowMs);
    for (const { hosts } of last.shape.clusters)
      for (const { id } of hosts) {
        const { spans: told, sinceMs } = spans.of(id, last);
        expect(sinceMs).toBe(startedAtMs);
        const known = told.map((span) => {
          return { ...span, fromMs: Math.max(span.fromMs, learnt.get(span.lease) ?? Infinity) };
        });
        for (const { event, ledger } of seen)
          expect(heldBy(known, event.nowMs), `${id} at ${String(event.nowMs)}`).toEqual(
            heldOn(id, ledger),
          );
      }
  });

  it("forgets the oldest where there are too many", async () => {
    const { folded, opened } = await recorded("fleet.first-jobs.json");
    const [few, all] = [createLeaseSpans(1), createLeaseSpans()];
    for (const one of folded) for (const kept of [few, all]) kept.add(one);
    const ledger = folded.at(-1)?.ledger ?? opened;
    const hosts = ledger.shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
    const ended = (kept: typeof few): number =>
      hosts.flatMap((id) => kept.of(id, ledger).spans).filter(({ toMs }) => toMs !== undefined)
        .length;
    expect(ended(few)).toBe(1);
    expect(ended(all)).toBeGreaterThan(1);
  });
});

describe("shares over time", () => {
  it("are those of the queue's order at each sample, and stay few however long the time", async () => {
    const { opened, startedAtMs } = await recorded("fleet.first-jobs.json");
    const samples = createShareSamples({ firstStepMs: 1_000, most: 8 });
    for (let second = 0; second < 500; second += 1)
      samples.see(opened, startedAtMs + 1_000 * second);
    const all = samples.all();
    expect(all.length).toBeLessThanOrEqual(8);
    expect(all.length).toBeGreaterThanOrEqual(4);
    expect(all[0]?.atMs).toBe(startedAtMs);
    const steps = all.slice(1).map(({ atMs }, at) => atMs - (all[at]?.atMs ?? 0));
    expect(new Set(steps).size).toBe(1);
    for (const { atMs, tenants } of all) {
      const lines = queueOrder(opened, atMs).classes.flatMap((one) => one.tenants);
      const held = lines.reduce((sum, { runningGpus }) => sum + runningGpus, 0);
      expect(Object.values(tenants).reduce((sum, [gpus]) => sum + gpus, 0)).toBe(held);
    }
  });
});
