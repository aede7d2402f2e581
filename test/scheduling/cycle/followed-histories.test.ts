/**
 * @file The law of what is remembered: a session that has followed a fleet for hours decides as a fresh look at its ledger does.
 *
 * The fleets are busy, and all that a decision may look at is in play at once: processors and memory of hosts, watts and cooling of clusters and
 * sites, jurisdictions, quotas, classes, time limits, reservations, evictions, moves, gangs that shrink and grow, arrays, drained hosts.
 * What decides follows its own plans, as in a live fleet, so that reservations and evictions last from step to step.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, type FleetShape } from "../../../domain/fleet/fleet.ts";
import type { JobClass } from "../../../domain/job/job.ts";
import type { Lease } from "../../../domain/lease/lease.ts";
import { ms, watts } from "../../../domain/values/units.ts";
import type { CycleLimits, Policies } from "../../../scheduling/cycle/cycle.ts";
import { decide, DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { openSession, type Session } from "../../../scheduling/cycle/live-scheduler.ts";
import { conservative, drf, easy, tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { caseCount } from "../../support/case-count.ts";
import {
  ask,
  end,
  fleetShape,
  host,
  hostNames,
  readyLedger,
  type RequestSpec,
} from "../builders.ts";

const MINUTE_MS = 60_000;

/** Mostly absent: where everything is scarce, nothing starts. */
const maybe = <T>(arbitrary: fc.Arbitrary<T>): fc.Arbitrary<T | undefined> =>
  fc.oneof({ weight: 4, arbitrary: fc.constant(undefined) }, { weight: 1, arbitrary });

const busyFleets: fc.Arbitrary<FleetShape> = fc
  .record({
    clusters: fc.array(
      fc.record({
        hosts: fc.array(
          fc.record(
            {
              gpus: fc.constantFrom(4, 4, 8),
              type: fc.constantFrom("H100", "H100", "A100"),
              cpus: fc.constantFrom(16, 32),
              hostMemoryGiB: fc.constantFrom(64, 128),
            },
            { requiredKeys: ["gpus"] },
          ),
          { minLength: 1, maxLength: 3 },
        ),
        jurisdiction: fc.constantFrom("EU", "EU", "US"),
        hasFabric: fc.boolean(),
        powerWatts: maybe(fc.constantFrom(5_600, 8_400)),
        coolingWatts: maybe(fc.constantFrom(5_600, 9_000)),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    siteWatts: maybe(fc.constantFrom(7_000, 11_000)),
    quota: maybe(fc.constantFrom(4, 8)),
    maxReserveShare: fc.constantFrom(0, 0.1),
  })
  .map(({ clusters, siteWatts, quota, maxReserveShare }) => {
    const shape = fleetShape(
      clusters.map(({ powerWatts, coolingWatts, ...rest }) => ({
        ...rest,
        ...(powerWatts !== undefined && { powerWatts }),
        ...(coolingWatts !== undefined && { coolingWatts }),
      })),
      [{ id: "q", quota: quota === undefined ? {} : { "*": quota }, borrowing: 2 }],
    );
    return {
      ...shape,
      clusters: shape.clusters.map((cluster) => ({
        ...cluster,
        site: `site-${cluster.jurisdiction}`,
      })),
      ...(siteWatts !== undefined && {
        sites: [{ id: "site-EU", powerBudgetWatts: watts(siteWatts) }],
      }),
      policy: { ...DEFAULT_POLICY, maxReserveShare },
    };
  });

const wanted: fc.Arbitrary<RequestSpec> = fc
  .record({
    class: fc.constantFrom<JobClass>(
      "training",
      "training",
      "training",
      "inference",
      "interactive",
    ),
    tenant: fc.constantFrom("free", "q", "star"),
    gpus: fc.constantFrom(1, 2, 2, 4, 6, 8, 12),
    less: fc.constantFrom(0, 0, 1, 3),
    mayGrow: fc.boolean(),
    mayShrink: fc.boolean(),
    isPreemptible: fc.constantFrom(true, true, false),
    resources: fc.option(
      fc.record(
        { cpus: fc.constantFrom(1, 4, 8, 14), memoryGiB: fc.constantFrom(1, 16, 30) },
        { requiredKeys: [] },
      ),
      { nil: undefined, freq: 2 },
    ),
    timeLimitMs: fc.option(fc.constantFrom(2, 10, 60), { nil: undefined, freq: 2 }),
    hasCheckpoints: fc.boolean(),
    jurisdictions: maybe(fc.constantFrom(["EU"], ["US"])),
    isSameHost: fc.constantFrom(false, false, false, true),
    antiAffinity: maybe(fc.constant("apart")),
    slots: maybe(fc.constantFrom(1, 2, 3)),
    priority: fc.constantFrom(0, 0, 5),
  })
  .map(({ gpus, less, mayGrow, mayShrink, isPreemptible, hasCheckpoints, ...rest }) => {
    const { resources, timeLimitMs, jurisdictions, isSameHost, antiAffinity, slots } = rest;
    return {
      class: rest.class,
      tenant: rest.tenant,
      priority: rest.priority,
      gpus,
      gang: {
        min: Math.max(1, gpus - less),
        timeoutMs: ms(0),
        ...(mayGrow && less > 0 && { mayGrow: true as const }),
      },
      constraints: {
        isSameHost: isSameHost && gpus <= 4,
        ...(resources !== undefined && { resources }),
        ...(jurisdictions !== undefined && { jurisdictions }),
        ...(antiAffinity !== undefined && { antiAffinity }),
      },
      preemption: { isPreemptible, mayShrink: mayShrink && less > 0, minRuntimeMs: ms(0) },
      ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs * MINUTE_MS) }),
      ...(hasCheckpoints && { checkpoint: { graceMs: ms(1_000), intervalMs: ms(MINUTE_MS) } }),
      ...(slots !== undefined && { slots }),
    };
  });

interface Step {
  readonly pauseMs: number;
  readonly asked: readonly RequestSpec[];
  /** Which leases end. */
  readonly ended: readonly number[];
  /** Whether jobs follow their orders to stop. */
  readonly yields: boolean;
  /** Which hosts are drained, or take new work again. */
  readonly drained?: number | undefined;
}

const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    pauseMs: fc.constantFrom(5, 1_000, MINUTE_MS, 90 * MINUTE_MS),
    asked: fc.array(wanted, { minLength: 1, maxLength: 3, size: "max" }),
    ended: fc.array(fc.nat(9), { maxLength: 3, size: "max" }),
    yields: fc.boolean(),
    drained: fc.option(fc.nat(9), { nil: undefined, freq: 8 }),
  }),
  { minLength: 6, maxLength: 18, size: "max" },
);

const again = ({ terms, jobId, runId, seq, tenant, ...lease }: Lease, nowMs: number) => ({
  kind: "request",
  request: {
    ...{ jobId, runId, seq: seq + 1, name: jobId, tenant, class: lease.class },
    ...terms,
    requestedAtMs: nowMs,
  },
});

/** What happens in one step, as events. */
function eventsOf(step: Step, session: Session, { at, nowMs }: { at: number; nowMs: number }) {
  const events: LedgerEvent[] = [];
  const { ledger } = session;
  const leases = [...ledger.leases.values()];
  const gone = new Set(step.ended.flatMap((index) => leases[index % leases.length]?.jobId ?? []));
  const entries: unknown[] = leases
    .filter(({ jobId }) => gone.has(jobId))
    .map(({ jobId, runId, seq }) => end(jobId, { run: runId, seq }));
  const ordered = leases.filter(
    ({ eviction, jobId }) => step.yields && eviction !== undefined && !gone.has(jobId),
  );
  if (ordered.length > 0)
    events.push({ kind: "evictions-sent", sent: ordered.map(({ id }) => id), gone: [], nowMs });
  for (const lease of ordered)
    entries.push(end(lease.jobId, { run: lease.runId, seq: lease.seq }), again(lease, nowMs));
  for (const [index, wish] of step.asked.entries())
    entries.push(
      ask({ ...wish, job: `j${at}-${index}`, submittedAtMs: nowMs, requestedAtMs: nowMs }),
    );
  events.push({ kind: "inbox", entries, nowMs });
  if (step.drained !== undefined) {
    const names = hostNames(ledger.shape);
    const hosts = [host(names[step.drained % names.length] ?? "")];
    events.push(
      step.drained % 2 === 0
        ? { kind: "drain", hosts, reason: "test", nowMs }
        : { kind: "undrain", hosts: names.map(host), nowMs },
    );
    const gpus = hosts.map((each) => ({ host: each, mask: step.drained ?? 0 }));
    events.push(
      step.drained % 3 === 0
        ? {
            kind: "undrain-gpus",
            gpus: names.map((name) => ({ host: host(name), mask: 15 })),
            nowMs,
          }
        : { kind: "drain-gpus", gpus, reason: "test", nowMs },
    );
  }
  return events;
}

const NO_LIMIT: CycleLimits = { ...DECIDE_LIMITS, maxCandidates: Infinity };
const SILENT: CycleLimits = { ...NO_LIMIT, maxReasons: 0, freshReasons: 0 };

describe("a session that follows its own plans", () => {
  test.each<{ name: string; policies: Policies; limits: CycleLimits }>([
    { name: "tawfq", policies: tawfq, limits: SILENT },
    { name: "tawfq with reasons", policies: tawfq, limits: NO_LIMIT },
    { name: "easy", policies: easy, limits: SILENT },
    { name: "conservative", policies: conservative, limits: SILENT },
    { name: "drf", policies: drf, limits: SILENT },
  ])("decides as decide does on the packed ledger: $name", (row) => {
    const { policies, limits } = row;
    fc.assert(
      fc.property(busyFleets, steps, (shape, all) => {
        const session = openSession(readyLedger(shape), { policies, limits });
        let nowMs = 0;
        for (const [at, step] of all.entries()) {
          nowMs += step.pauseMs;
          for (const event of eventsOf(step, session, { at, nowMs })) session.apply(event);
          const fresh = unpackLedger(packLedger(session.ledger));
          const plan = session.decide(nowMs);
          const want = decide(fresh, nowMs, {}, { policies, limits });
          expect({ ...plan, stats: {} }).toEqual({ ...want, stats: {} });
          session.apply({ kind: "plan", plan, nowMs });
        }
      }),
      // A shorter history takes longer to find than a test may.
      { numRuns: caseCount(36), endOnFailure: true },
    );
  });
});
