/**
 * @file Packs what a ledger notes of the past (evictions, runs, the demand of inference jobs) as flat lists of numbers, and unpacks it.
 *
 * Cost: O(notes). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { siteLinkKey, type SiteLink } from "../../domain/fleet/site-link.ts";
import { JOB_CLASSES } from "../../domain/job/job.ts";
import { clusterId, tenantId, type HostId } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import type { Interner } from "../../lib/interner.ts";
import { entry } from "./codec-values.ts";
import type { DemandTrace, EvictionNote, Ledger, RunNote } from "./ledger.ts";

/** Triples: time, index of the tenant's text, GPU-seconds lost. */
export function packNotes(
  notes: readonly EvictionNote[],
  texts: Interner<string>,
): readonly number[] {
  const numbers: number[] = [];
  for (const { atMs, tenant, lostGpuSeconds } of notes)
    numbers.push(atMs, texts.indexOf(tenant), lostGpuSeconds);
  return numbers;
}

/** Seven numbers each: class, tenant (indices of texts), GPUs, end after the former end, wait, run, time limit or -1. */
export function packRuns(notes: readonly RunNote[], texts: Interner<string>): readonly number[] {
  const numbers: number[] = [];
  let formerMs = 0;
  for (const note of notes) {
    const { gpus, submittedAtMs, grantedAtMs, endedAtMs, timeLimitMs = -1 } = note;
    numbers.push(texts.indexOf(note.class), texts.indexOf(note.tenant), gpus);
    numbers.push(endedAtMs - formerMs, grantedAtMs - submittedAtMs, endedAtMs - grantedAtMs);
    numbers.push(timeLimitMs);
    formerMs = endedAtMs;
  }
  return numbers;
}

export const unpackNotes = (
  triples: readonly number[],
  texts: readonly string[],
): readonly EvictionNote[] =>
  Array.from({ length: triples.length / 3 }, (_, note) => ({
    atMs: entry(triples, 3 * note),
    tenant: tenantId(entry(texts, entry(triples, 3 * note + 1))),
    lostGpuSeconds: entry(triples, 3 * note + 2),
  }));

export function unpackRuns(
  numbers: readonly number[],
  texts: readonly string[],
): readonly RunNote[] {
  const notes: RunNote[] = [];
  for (let at = 0; at < numbers.length; at += 7) {
    const className = entry(texts, entry(numbers, at));
    const endedAtMs = (notes.at(-1)?.endedAtMs ?? 0) + entry(numbers, at + 3);
    const grantedAtMs = endedAtMs - entry(numbers, at + 5);
    const timeLimitMs = entry(numbers, at + 6);
    notes.push({
      class: JOB_CLASSES.find((name) => name === className) ?? "training",
      tenant: tenantId(entry(texts, entry(numbers, at + 1))),
      gpus: entry(numbers, at + 2),
      submittedAtMs: grantedAtMs - entry(numbers, at + 4),
      grantedAtMs,
      endedAtMs,
      ...(timeLimitMs >= 0 && { timeLimitMs: ms(timeLimitMs) }),
    });
  }
  return notes;
}

/** Seconds and their greatest demand as differences. */
export function packDemand({ gpus, slots }: DemandTrace): readonly [number, ...number[]] {
  let former = 0;
  const flat: number[] = [];
  for (const [slot, start, most] of slots) {
    flat.push(slot - former, start, most - start);
    former = slot;
  }
  return [gpus, ...flat];
}

export function unpackDemand([gpus, ...flat]: readonly [number, ...number[]]): DemandTrace {
  const slots: [number, number, number][] = [];
  let slot = 0;
  for (let at = 0; at < flat.length; at += 3) {
    slot += entry(flat, at);
    slots.push([slot, entry(flat, at + 1), entry(flat, at + 1) + entry(flat, at + 2)]);
  }
  return { gpus, slots };
}

/** In the order of the fleet's description, each once. */
export const hostIdsOf = ({ clusters }: FleetShape): readonly HostId[] => [
  ...new Set(clusters.flatMap(({ hosts }) => hosts.map(({ id }) => id))),
];

export type ModelRow = readonly [cluster: string, version: string, generation: number];

export const packModels = (models: NonNullable<Ledger["models"]>): readonly ModelRow[] =>
  [...models].map(([cluster, { version, generation }]) => [cluster, version, generation]);

export const unpackModels = (rows: readonly ModelRow[]): NonNullable<Ledger["models"]> =>
  new Map(
    rows.map(([cluster, version, generation]) => [clusterId(cluster), { version, generation }]),
  );

export const unpackLinks = (links: readonly SiteLink[]): NonNullable<Ledger["links"]> =>
  new Map(links.map((link) => [siteLinkKey(link.from, link.to), link]));
