/** @file The law of a what-if: asked of a copy of the ledger, it says what the fleet does when nothing arrives in between. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { gpuCountOf, type GangRequest, type HostGpus } from "../../../domain/lease/lease.ts";
import { hostId, jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { openSession } from "../../../scheduling/cycle/live-scheduler.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { neverOf } from "../../../scheduling/explain/never.ts";
import { whatIf } from "../../../scheduling/explain/what-if.ts";
import { end, fleetShape, gangRequest, readyLedger, type RequestSpec } from "../builders.ts";

const fleets = fc
  .array(fc.constantFrom(4, 8, 2), { minLength: 1, maxLength: 4 })
  .map((hosts) =>
    fleetShape(
      [{ hosts: hosts.map((gpus) => ({ gpus })) }],
      [{ id: "q", quota: { H100: 4 }, borrowing: 8 }],
    ),
  );

const jobs: fc.Arbitrary<RequestSpec> = fc
  .record({
    gpus: fc.constantFrom(1, 2, 4, 8, 3, 12),
    shrink: fc.constantFrom(0, 0, 2),
    tenant: fc.constantFrom("t", "u", "q"),
    class: fc.constantFrom("training", "training", "interactive", "inference"),
    minRuntimeMs: fc.constantFrom(0, 0, 20_000),
    timeLimitMs: fc.constantFrom(undefined, 5_000),
  })
  .map(({ gpus, shrink, minRuntimeMs, timeLimitMs, ...rest }) => ({
    ...rest,
    gpus,
    gang: { min: Math.max(1, gpus - shrink), timeoutMs: ms(3_000) },
    preemption: { isPreemptible: true, mayShrink: shrink > 0, minRuntimeMs: ms(minRuntimeMs) },
    ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }),
  }));

const cases = fc.record({
  shape: fleets,
  steps: fc.array(fc.oneof({ weight: 3, arbitrary: jobs }, { weight: 1, arbitrary: fc.nat(20) }), {
    minLength: 3,
    maxLength: 20,
  }),
  // What is lent is lent for whole seconds: no offer ends between question and submission.
  settings: jobs.map((job) =>
    job.timeLimitMs === undefined ? job : { ...job, timeLimitMs: ms(4_500) },
  ),
  /** From the question to the submission. */
  laterMs: fc.constantFrom(0, 40),
});

test("a what-if is what the fleet then does with the job: starts it there, evicts these, or lets it wait", () => {
  const seen = { starts: 0, preempts: 0, waits: 0, never: 0, refused: 0 };
  fc.assert(
    fc.property(cases, ({ shape, steps, settings, laterMs }) => {
      const session = openSession(readyLedger(shape));
      let nowMs = 0;
      const requestOf = (spec: RequestSpec, job: string): GangRequest =>
        gangRequest({ ...spec, job, submittedAtMs: nowMs, requestedAtMs: nowMs });
      const isDecided = (): boolean =>
        !session.apply({ kind: "plan", plan: session.decide(nowMs), nowMs }).needsDecision;
      steps.forEach((step, at) => {
        nowMs += 1_000;
        const leases = [...session.ledger.leases.values()];
        const lease = typeof step === "number" ? leases[step % leases.length] : undefined;
        const entries: InboxEntry[] = [];
        if (typeof step !== "number")
          entries.push({ kind: "request", request: requestOf(step, `j${at}`) });
        else if (lease !== undefined) entries.push(end(lease.jobId));
        session.apply({ kind: "inbox", entries, nowMs });
        while (!isDecided());
      });
      const request = requestOf(settings, "what-if");
      const before = JSON.stringify(packLedger(session.ledger));
      const notified = whatIf(unpackLedger(packLedger(session.ledger)), request, {
        nowMs,
        samples: 0,
      });
      expect(JSON.stringify(packLedger(session.ledger))).toBe(before);
      seen[notified.kind] += 1;

      nowMs += laterMs;
      session.apply({ kind: "inbox", entries: [{ kind: "request", request }], nowMs });
      const plan = session.decide(nowMs);
      const { refusals } = session.apply({ kind: "plan", plan, nowMs });
      expect(refusals).toEqual([]);
      const { leases, reservations, reasons } = session.ledger;
      const lease = [...leases.values()].find(({ jobId }) => jobId === request.jobId);
      const evicted = [...leases.values()].filter(
        ({ eviction }) => eviction?.forJob === request.jobId,
      );
      if (notified.kind === "starts") expect(lease?.gpus).toEqual(sorted(notified.gpus));
      else expect(lease).toBeUndefined();
      if (notified.kind === "preempts") {
        expect(evicted.map(({ id }) => id).sort()).toEqual(
          notified.victims.map((one) => one.lease).sort(),
        );
        expect(gpuCountOf(notified.gpus)).toBeGreaterThan(0);
        expect(reservations?.get(request.jobId)?.gpus).toEqual(notified.gpus);
      } else expect(evicted).toEqual([]);
      if (notified.kind === "waits")
        expect(reasons.get(request.jobId)?.code).toBe(notified.answer.reason.code);
    }),
    { numRuns: 100 },
  );
  expect(Math.min(seen.starts, seen.preempts, seen.waits)).toBeGreaterThan(0);
});

test("a job would never start exactly where it does not start after all others have ended", () => {
  const seen = { never: 0, sometime: 0 };
  fc.assert(
    fc.property(cases, ({ shape, steps, settings }) => {
      const session = openSession(readyLedger(shape));
      const specs = [...steps.filter((step) => typeof step !== "number"), settings];
      const entries = specs.map((spec, at): InboxEntry => ({
        kind: "request",
        request: gangRequest({ ...spec, job: `j${at}`, submittedAtMs: at, requestedAtMs: at }),
      }));
      const last = jobId(`j${specs.length - 1}`);
      session.apply({ kind: "inbox", entries, nowMs: 100 });
      const isNever = neverOf(session.ledger, last, { nowMs: 100 }) !== undefined;
      const others = specs.slice(0, -1).map((_, at) => end(`j${at}`));
      session.apply({ kind: "inbox", entries: others, nowMs: 200 });
      // After its gang timeout it takes the least that it ever takes.
      session.apply({ kind: "plan", plan: session.decide(60_000), nowMs: 60_000 });
      const isGranted = [...session.ledger.leases.values()].some((lease) => lease.jobId === last);
      expect(isNever).toBe(!isGranted);
      seen[isNever ? "never" : "sometime"] += 1;
    }),
    { numRuns: 100 },
  );
  expect(Math.min(seen.never, seen.sometime)).toBeGreaterThan(0);
});

test("drained hosts and maintenance pass, so a job that waits for them is not one that never starts", () => {
  const ready = readyLedger(fleetShape([{}]));
  const drain = { kind: "drain", hosts: [hostId("c0", "h0")], reason: "fan", nowMs: 1 } as const;
  const { ledger } = apply(ready, drain);
  const drained = whatIf(ledger, gangRequest({ job: "w", gpus: 8 }), { nowMs: 2, samples: 0 });
  const large = whatIf(ready, gangRequest({ job: "w", gpus: 9 }), { nowMs: 2, samples: 0 });
  expect([drained.kind, large.kind]).toEqual(["waits", "never"]);
});

test("of a job that those are protected from who have what it is due, it says when they will be and who", () => {
  const nowMs = 20_000;
  const preemption = { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(60_000) };
  const session = openSession(readyLedger(fleetShape([{}])));
  const submit = (spec: RequestSpec): GangRequest => {
    const request = gangRequest(spec);
    session.apply({
      kind: "inbox",
      entries: [{ kind: "request", request }],
      nowMs: request.requestedAtMs,
    });
    return request;
  };
  submit({ job: "a", gpus: 8, preemption });
  session.apply({ kind: "plan", plan: session.decide(0), nowMs: 0 });
  const settings: RequestSpec = {
    gpus: 4,
    class: "inference",
    submittedAtMs: nowMs,
    requestedAtMs: nowMs,
  };
  const notified = whatIf(session.ledger, gangRequest({ ...settings, job: "w" }), {
    nowMs,
    samples: 0,
  });
  expect(notified.kind).toBe("waits");
  const later = notified.kind === "waits" ? notified.preempts : undefined;
  expect(later).toMatchObject({ atMs: 60_000, victims: [{ jobId: "a" }] });

  submit({ ...settings, job: "w" });
  session.apply({ kind: "plan", plan: session.decide(nowMs), nowMs });
  const before = session.decide(59_000);
  expect(before.evict ?? []).toEqual([]);
  const plan = session.decide(60_000);
  expect(plan.evict?.map(({ lease }) => lease)).toEqual(later?.victims.map(({ lease }) => lease));
  expect(plan.reserve?.find(({ jobId }) => jobId === "w")?.gpus).toEqual(later?.gpus);
});

const sorted = (gpus: readonly HostGpus[]): readonly HostGpus[] =>
  [...gpus].sort((a, b) => (a.host < b.host ? -1 : 1));
