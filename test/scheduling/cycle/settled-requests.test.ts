/** @file A pass that passes over settled requests decides as one that looks at each: the plan and its work are the same. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { GangRequest } from "../../../domain/lease/lease.ts";
import type { Plan } from "../../../domain/lease/plan.ts";
import { DECIDE_LIMITS } from "../../../scheduling/cycle/decide.ts";
import { openSession, type Session } from "../../../scheduling/cycle/live-scheduler.ts";
import type { Policies } from "../../../scheduling/cycle/policies.ts";
import { tawfq } from "../../../scheduling/cycle/policy-sets.ts";
import type { PassingOver } from "../../../scheduling/queue/labels.ts";
import type { QueueCursor } from "../../../scheduling/queue/queue-policy.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { caseCount } from "../../support/case-count.ts";
import { fleets } from "../arbitraries.ts";
import { end, fleetShape, gangRequest, readyLedger } from "../builders.ts";
import { happenings } from "../happenings.ts";

/** The same queue, of which `seen` gets every cursor. */
const watched = (seen: (cursor: QueueCursor) => QueueCursor): Policies => ({
  ...tawfq,
  queue: {
    open: (view) => {
      const queue = tawfq.queue.open(view);
      return { ...queue, order: (nowMs, facts) => seen(queue.order(nowMs, facts)) };
    },
  },
});

const unlabelled = watched(({ label: _label, setLabel: _setLabel, ...cursor }) => cursor);

/** Few reasons, so that most requests are behind the front. */
const limits = { ...DECIDE_LIMITS, maxReasons: 4, freshReasons: 2 };

interface Counted {
  readonly session: Session;
  readonly passed: () => number;
}

function counted(start: Parameters<typeof openSession>[0]): Counted {
  let passed = 0;
  const policies = watched((cursor) => ({
    ...cursor,
    next: (over?: PassingOver) => {
      const before = over?.count ?? 0;
      const request = cursor.next(over);
      passed += (over?.count ?? 0) - before;
      return request;
    },
  }));
  return { session: openSession(start, { policies, limits }), passed: () => passed };
}

describe("passing over settled requests", () => {
  test("changes no plan, whatever happens", () => {
    const histories = fleets.chain((shape) =>
      fc.record({
        shape: fc.constant(shape),
        steps: fc.array(fc.tuple(happenings(shape), fc.integer({ min: 0, max: 20 })), {
          minLength: 5,
          maxLength: 40,
        }),
      }),
    );
    fc.assert(
      fc.property(histories, ({ shape, steps }) => {
        const start = readyLedger(shape);
        const { session } = counted(start);
        const whole = openSession(start, { policies: unlabelled, limits });
        let nowMs = 0;
        for (const [happening, pauseMs] of steps) {
          nowMs += pauseMs;
          const event = happening.eventOf(session.ledger, nowMs);
          session.apply(event);
          whole.apply(event);
          expect(session.decide(nowMs)).toEqual(whole.decide(nowMs));
        }
      }),
      { numRuns: caseCount(60) },
    );
  });

  /** For a fleet with a cluster that few ask for, so that GPUs are free while a crowd of a few kinds waits. */
  const crowds = fc.array(
    fc.record({
      gpus: fc.constantFrom(1, 2, 8),
      tenant: fc.constantFrom("a", "b"),
      jobClass: fc.constantFrom("training" as const, "inference" as const, "interactive" as const),
      priority: fc.constantFrom(0, 100),
      isPicky: fc.boolean(),
      isRoaming: fc.integer({ min: 0, max: 19 }).map((drawn) => drawn === 0),
      timeLimitMs: fc.constantFrom(undefined, 60_000, 3_600_000),
      isLeaving: fc.boolean(),
    }),
    { minLength: 60, maxLength: 120 },
  );
  type Member = typeof crowds extends fc.Arbitrary<readonly (infer M)[]> ? M : never;

  const requestOf = (member: Member, at: number): GangRequest => {
    const { gpus, tenant, jobClass, priority, isPicky, isRoaming, timeLimitMs } = member;
    return gangRequest({
      job: `j${String(at)}`,
      gpus,
      tenant,
      class: jobClass,
      priority,
      submittedAtMs: at,
      ...(timeLimitMs !== undefined && { timeLimitMs: ms(timeLimitMs) }),
      constraints: { clusters: [clusterId(isRoaming ? "c1" : "c0")], isSameHost: isPicky },
    });
  };

  test("changes no plan of a crowd that comes, goes and is told why it waits, and passes over most of it", () => {
    let passed = 0;
    fc.assert(
      fc.property(crowds, (crowd) => {
        const start = readyLedger(fleetShape([{ hosts: [{}, {}] }, { hosts: [{}] }]));
        const labelled = counted(start);
        const whole = openSession(start, { policies: unlabelled, limits });
        const both = (event: Parameters<Session["apply"]>[0]): void => {
          labelled.session.apply(event);
          whole.apply(event);
        };
        let nowMs = 1_000;
        const cycle = (): Plan => {
          const plan = labelled.session.decide(nowMs);
          expect(plan).toEqual(whole.decide(nowMs));
          both({ kind: "plan", plan, nowMs });
          nowMs += 1_000;
          return plan;
        };
        const entries = crowd.map((member, at) => ({
          kind: "request" as const,
          request: requestOf(member, at),
        }));
        both({ kind: "inbox", entries, nowMs });
        for (let count = 0; count < 6; count += 1) cycle();
        crowd.forEach(({ isLeaving }, at) => {
          if (!isLeaving) return;
          both({ kind: "inbox", entries: [end(`j${String(at)}`)], nowMs });
          cycle();
        });
        passed += labelled.passed();
      }),
      { numRuns: caseCount(25) },
    );
    expect(passed).toBeGreaterThan(100);
  });
});
