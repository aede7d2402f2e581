/**
 * @file What a link monitor remembers of each pair of sites: smoothed figures, failures in a row, when it is probed next, and what the fleet was told.
 *
 * Bandwidth and round trip are exponentially weighted means, a quarter for the newest probe; the spread is the same mean of how far probes were off. A link is
 * out when two probes in a row, knocked at from either side, found no answer although both ends were there; the first probe that comes through ends that.
 * Duty: a pair every five minutes, and one probe in five seconds over the whole fleet at most, so with more than 60 pairs each is probed less often. A word holds for
 * three such periods. Ends on one machine are probed twice an hour: nothing there can change but whether there is an answer.
 * Pure. Cost: O(pairs) a call.
 */

import { byCodeUnit } from "../../domain/values/ids.ts";
import { sitePairKey, type MeasuredRate, type SiteLink } from "../../domain/fleet/site-link.ts";
import { gbps, ms } from "../../domain/values/units.ts";
import type { LinkEnds, ProbeReport } from "../../protocol/link-contract.ts";
import type { LinkMemory, LinkRecord } from "../../protocol/link-messages.ts";

export const PERIOD_MS = 300_000;
const PERIOD_PER_PAIR_MS = 5_000;
const LOCAL_PERIOD_MS = 1_800_000;
const PERIODS_IN_FORCE = 3;
/** Failures in a row that make an outage. */
const FAILURES_OF_OUTAGE = 2;
/** After a first failure the other side knocks; an outage is looked at each minute. */
const AFTER_FAILURE_MS = 10_000;
const IN_OUTAGE_MS = 60_000;
/** An end did not do its part: that says nothing of the link. */
const AFTER_NOTHING_MS = 60_000;
const NEWEST = 1 / 4;
/** So much off what it heard, and the fleet hears again. */
const NEWS_SHARE = 0.1;

export const pairOf = ({ a, b }: LinkRecord): string => sitePairKey(a, b);

/** One record for each two sites; what is known of those that stay is kept. */
export function withSites(memory: LinkMemory, sites: readonly string[], nowMs: number): LinkMemory {
  const known = new Map(memory.map((record) => [pairOf(record), record]));
  const names = [...new Set(sites)].sort(byCodeUnit);
  return names.flatMap((a, at) =>
    names
      .slice(at + 1)
      .map((b) => known.get(sitePairKey(a, b)) ?? { a, b, nextAtMs: nowMs, failures: 0, turns: 0 }),
  );
}

const periodMs = (memory: LinkMemory, isLocal = false): number =>
  Math.max(isLocal ? LOCAL_PERIOD_MS : PERIOD_MS, memory.length * PERIOD_PER_PAIR_MS);

/** Pairs with an end at both sites. */
function probable(memory: LinkMemory, ends: readonly LinkEnds[]): LinkMemory {
  const present = new Set(ends.flatMap((each) => (each.ends.length > 0 ? [each.site] : [])));
  return memory.filter(({ a, b }) => present.has(a) && present.has(b));
}

/** Infinite when no pair can be probed. */
export const nextDueAtMs = (memory: LinkMemory, ends: readonly LinkEnds[]): number =>
  Math.min(Infinity, ...probable(memory, ends).map(({ nextAtMs }) => nextAtMs));

/** The pair that has been due longest; ties in order. */
export function nextDue(
  memory: LinkMemory,
  ends: readonly LinkEnds[],
  nowMs: number,
): LinkRecord | undefined {
  return probable(memory, ends)
    .filter(({ nextAtMs }) => nextAtMs <= nowMs)
    .reduce<LinkRecord | undefined>(
      (first, each) => (first !== undefined && first.nextAtMs <= each.nextAtMs ? first : each),
      undefined,
    );
}

/** The ends that take part, each site's in turn; the first knocks at the second's door. */
export function endsOf(
  { a, b, turns }: LinkRecord,
  ends: readonly LinkEnds[],
): readonly [connections: LinkEnds["ends"][number], opens: LinkEnds["ends"][number]] | undefined {
  const turn = Math.floor(turns / 2);
  const endAt = (site: string) => {
    const all = ends.find((each) => each.site === site)?.ends ?? [];
    return all[turn % Math.max(1, all.length)];
  };
  const [first, second] = [endAt(a), endAt(b)];
  if (first === undefined || second === undefined) return undefined;
  return turns % 2 === 0 ? [first, second] : [second, first];
}

/** What a probe found; undefined when an end did not do its part. */
export function noteProbe(
  memory: LinkMemory,
  pair: string,
  found: { readonly report?: ProbeReport; readonly problem?: string; readonly nowMs: number },
): LinkMemory {
  return memory.map((record) => {
    if (pairOf(record) !== pair) return record;
    const { report, nowMs } = found;
    const turned = { ...record, turns: record.turns + 1 };
    if (report === undefined) {
      const { problem = "an end did not take part" } = found;
      return { ...turned, nextAtMs: nowMs + AFTER_NOTHING_MS, problem };
    }
    return report.kind === "through"
      ? passed(turned, report, { memory, nowMs, isFromA: record.turns % 2 === 0 })
      : failed(turned, report.message, nowMs);
  });
}

function passed(
  { outageSinceMs: _over, problem: _gone, isLocal: _was, ...record }: LinkRecord,
  report: Extract<ProbeReport, { kind: "through" }>,
  at: { readonly memory: LinkMemory; readonly nowMs: number; readonly isFromA: boolean },
): LinkRecord {
  const { roundTripMs, thereGbps, backGbps, isLocal } = report;
  const { memory, nowMs, isFromA } = at;
  const rate = (former: MeasuredRate | undefined, measuredGbps: number): MeasuredRate =>
    smoothed(former, { gbps: measuredGbps, roundTripMs, nowMs });
  return {
    ...record,
    there: rate(record.there, isFromA ? thereGbps : backGbps),
    back: rate(record.back, isFromA ? backGbps : thereGbps),
    checkedAtMs: nowMs,
    nextAtMs: nowMs + periodMs(memory, isLocal),
    failures: 0,
    ...(isLocal && { isLocal }),
  };
}

function smoothed(
  former: MeasuredRate | undefined,
  now: { readonly gbps: number; readonly roundTripMs: number; readonly nowMs: number },
): MeasuredRate {
  const toward = (mean: number, value: number): number => mean + (value - mean) * NEWEST;
  if (former === undefined) {
    return {
      bandwidthGbps: gbps(now.gbps),
      spreadGbps: gbps(0),
      roundTripMs: ms(now.roundTripMs),
      atMs: now.nowMs,
      probes: 1,
    };
  }
  const { bandwidthGbps, spreadGbps, roundTripMs, probes } = former;
  return {
    bandwidthGbps: gbps(toward(bandwidthGbps, now.gbps)),
    spreadGbps: gbps(toward(spreadGbps, Math.abs(now.gbps - bandwidthGbps))),
    roundTripMs: ms(toward(roundTripMs, now.roundTripMs)),
    atMs: now.nowMs,
    probes: probes + 1,
  };
}

function failed(record: LinkRecord, problem: string, nowMs: number): LinkRecord {
  const failures = record.failures + 1;
  const isOut = failures >= FAILURES_OF_OUTAGE;
  return {
    ...record,
    failures,
    problem,
    checkedAtMs: nowMs,
    nextAtMs: nowMs + (isOut ? IN_OUTAGE_MS : AFTER_FAILURE_MS),
    ...(isOut && { outageSinceMs: record.outageSinceMs ?? nowMs }),
  };
}

/** Those of which the fleet is to hear: new, out or back, much changed, or about to be forgotten. */
export function newsOf(memory: LinkMemory, nowMs: number): readonly LinkRecord[] {
  return memory.filter((record) => {
    const { checkedAtMs, notified } = record;
    if (checkedAtMs === undefined || (record.there === undefined && !isOut(record))) return false;
    if (notified === undefined || isOut(record) !== notified.isOut) return true;
    if (checkedAtMs <= notified.atMs) return false;
    if ((record.isLocal === true) !== notified.isLocal) return true;
    const rate = rateOf(record);
    const isOld = nowMs - notified.atMs >= periodMs(memory, record.isLocal);
    return isOld || Math.abs(rate - notified.gbps) > NEWS_SHARE * notified.gbps;
  });
}

export const isOut = ({ outageSinceMs }: LinkRecord): boolean => outageSinceMs !== undefined;

const rateOf = ({ there, back }: LinkRecord): number =>
  Math.min(there?.bandwidthGbps ?? 0, back?.bandwidthGbps ?? 0);

export function noteNotified(
  memory: LinkMemory,
  pairs: ReadonlySet<string>,
  nowMs: number,
): LinkMemory {
  return memory.map((record) =>
    pairs.has(pairOf(record)) ? { ...record, notified: notifiedNow(record, nowMs) } : record,
  );
}

const notifiedNow = (record: LinkRecord, atMs: number): LinkRecord["notified"] & object => ({
  atMs,
  gbps: rateOf(record),
  isOut: isOut(record),
  isLocal: record.isLocal === true,
});

/** The fleet has lost what it heard. */
export const forgetNotified = (memory: LinkMemory): LinkMemory =>
  memory.map(({ notified: _lost, ...record }) => record);

/** As the fleet's ledger keeps it: each direction by itself. */
export function wordsOf(record: LinkRecord, memory: LinkMemory): readonly SiteLink[] {
  const { a, b, there, back, checkedAtMs = 0, outageSinceMs, isLocal } = record;
  const common = {
    checkedAtMs,
    validUntilMs: checkedAtMs + PERIODS_IN_FORCE * periodMs(memory, isLocal),
    ...(outageSinceMs !== undefined && { outageSinceMs }),
    ...(isLocal === true && { isLocal }),
  };
  return [
    { from: a, to: b, ...common, ...(there !== undefined && { measured: there }) },
    { from: b, to: a, ...common, ...(back !== undefined && { measured: back }) },
  ];
}
