/** @file The account of service: what `apply` writes down of who was served, and where the deficits stand. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "../../../../domain/fleet/fleet.ts";
import { JOB_CLASSES, type JobClass } from "../../../../domain/job/job.ts";
import { gpuCountOf } from "../../../../domain/lease/lease.ts";
import { jobId } from "../../../../domain/values/ids.ts";
import { apply } from "../../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { openSession } from "../../../../scheduling/cycle/live-scheduler.ts";
import {
  isIdleFlow,
  noteLease,
  noteRequest,
  openBook,
  settle,
  type ServiceBook,
} from "../../../../scheduling/ledger/rules/service-account.ts";
import { deficitsOf } from "../../../../scheduling/fairness/flow-deficits.ts";
import { fleets } from "../../arbitraries.ts";
import {
  applyPlan,
  ask,
  end,
  fleetShape,
  gangRequest,
  gpus,
  grantItem,
  inbox,
  planOf,
  readyLedger,
  type RequestSpec,
} from "../../builders.ts";
import { happenings } from "../../happenings.ts";
import { caseCount } from "../../../support/case-count.ts";

const READY = readyLedger(fleetShape([{ hosts: [{}, {}] }]));

const asked = (ledger: Ledger, nowMs: number, spec: RequestSpec): Ledger =>
  inbox(ledger, [ask(spec)], nowMs).ledger;
const granted = (ledger: Ledger, nowMs: number, job: string, mask: number): Ledger =>
  applyPlan(ledger, planOf([grantItem(job, gpus(["c0/h0", mask]))]), nowMs).ledger;
const ended = (ledger: Ledger, nowMs: number, job: string): Ledger =>
  inbox(ledger, [end(job)], nowMs).ledger;
const flowOf = (ledger: Ledger, flow: string) => ledger.service?.flows.get(flow);

/** Job `a` of tenant a, class training, runs on two GPUs from 10 s on. */
const RUNNING = granted(asked(READY, 0, { job: "a", tenant: "a", gpus: 2 }), 10_000, "a", 3);

describe("what is written down", () => {
  test("a flow and its class have received GPUs · seconds, from the grant to the end", () => {
    const after = ended(RUNNING, 40_000, "a");
    const want = { receivedGpuSeconds: 60, virtualSeconds: 60 };
    expect(flowOf(after, "training")).toEqual(want);
    expect(flowOf(after, "training a")).toEqual(want);
    expect(flowOf(ended(after, 90_000, "a"), "training")).toEqual(want);
  });

  test("virtual service is divided by the weight of the time in which it was received", () => {
    const shape = {
      ...READY.shape,
      policy: {
        ...DEFAULT_POLICY,
        classWeights: { ...DEFAULT_POLICY.classWeights, training: 4 },
      },
    };
    const changed = apply(RUNNING, { kind: "fleet-changed", shape, nowMs: 20_000 }).ledger;
    const after = ended(changed, 30_000, "a");
    expect(flowOf(after, "training")).toEqual({
      receivedGpuSeconds: 40,
      virtualSeconds: 20 + 20 / 4,
    });
    expect(flowOf(after, "training a")).toEqual({ receivedGpuSeconds: 40, virtualSeconds: 40 });
  });

  test("an event that changes no lease and no request writes nothing, and loses nothing", () => {
    const idle = apply(RUNNING, { kind: "clock", nowMs: 20_000 });
    expect(idle.ledger).toBe(RUNNING);
    expect(idle.needsDecision).toBe(false);
    expect(flowOf(ended(idle.ledger, 40_000, "a"), "training")?.receivedGpuSeconds).toBe(60);
  });

  test("a vacating lease serves nobody", () => {
    const vacating = inbox(RUNNING, [end("a", { unconfirmed: ["c0/h0"] })], 20_000).ledger;
    const after = asked(vacating, 90_000, { job: "b" });
    expect(flowOf(after, "training")?.receivedGpuSeconds).toBe(20);
  });

  test("time that runs backwards takes nothing away, and counts once", () => {
    const later = asked(RUNNING, 30_000, { job: "b" });
    const earlier = asked(later, 20_000, { job: "c" });
    expect(flowOf(ended(earlier, 40_000, "a"), "training")?.receivedGpuSeconds).toBe(60);
  });
});

describe("a flow that begins to wait", () => {
  const virtual = (ledger: Ledger, flow: string): number =>
    flowOf(ledger, flow)?.virtualSeconds ?? 0;

  test("is put where its least served waiting sibling stands: idle time is not banked", () => {
    const busy = asked(RUNNING, 20_000, { job: "a2", tenant: "a" });
    const after = asked(busy, 30_000, { job: "b", tenant: "b" });
    expect(virtual(after, "training a")).toBe(40);
    expect(virtual(after, "training b")).toBe(40);
  });

  test("is put where its most served sibling stands when none waits: nobody is owed anything", () => {
    const after = asked(RUNNING, 30_000, { job: "i", tenant: "b", class: "inference" });
    expect(virtual(after, "inference")).toBe(40);
    expect(virtual(after, "inference b")).toBe(0);
  });

  test("keeps what it was served above that", () => {
    const waits = asked(READY, 0, { job: "b", tenant: "b" });
    const runs = granted(asked(waits, 0, { job: "a", tenant: "a", gpus: 2 }), 0, "a", 3);
    const after = asked(runs, 30_000, { job: "a2", tenant: "a" });
    expect(virtual(after, "training a")).toBe(60);
    expect(virtual(after, "training b")).toBe(0);
  });

  test("is not lifted while it waits, whoever asks again or more", () => {
    const waits = asked(READY, 0, { job: "b", tenant: "b" });
    const runs = granted(asked(waits, 0, { job: "a", tenant: "a", gpus: 2 }), 0, "a", 3);
    const more = asked(asked(runs, 10_000, { job: "a2", tenant: "a" }), 20_000, {
      job: "b",
      tenant: "b",
      seq: 2,
    });
    expect(virtual(asked(more, 30_000, { job: "b2", tenant: "b" }), "training b")).toBe(0);
  });
});

describe("whatever happens to a fleet", () => {
  const histories = fleets.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      steps: fc.array(fc.tuple(happenings(shape), fc.integer({ min: 0, max: 20_000 })), {
        minLength: 5,
        maxLength: 25,
      }),
    }),
  );

  test("what was received is what was leased, second by second; a session and a packed ledger keep the same account", () => {
    fc.assert(
      fc.property(histories, ({ shape, steps }) => {
        let ledger = readyLedger(shape);
        const session = openSession(ledger);
        const received = new Map<JobClass, number>(JOB_CLASSES.map((each) => [each, 0]));
        let nowMs = 0;
        for (const [{ eventOf }, pauseMs] of steps) {
          nowMs += pauseMs;
          for (const { state, class: jobClass, gpus: parts } of ledger.leases.values()) {
            if (state === "vacating") continue;
            const gpuMs = gpuCountOf(parts) * pauseMs;
            received.set(jobClass, (received.get(jobClass) ?? 0) + gpuMs);
          }
          const event = eventOf(ledger, nowMs);
          ledger = apply(ledger, event).ledger;
          expect(session.apply(event).ledger.service).toEqual(ledger.service);
          const text = JSON.stringify(packLedger(ledger));
          ledger = unpackLedger(JSON.parse(text) as ReturnType<typeof packLedger>);
        }
        const book = openBook(ledger);
        settle(book, nowMs);
        for (const [jobClass, gpuMs] of received) {
          const now = book.flows.get(jobClass)?.receivedGpuSeconds ?? 0;
          expect(now).toBeCloseTo(gpuMs / 1_000, 6);
        }
      }),
      { numRuns: caseCount(100) },
    );
  });

  test("virtual service never falls, and the deficits of siblings sum to zero", () => {
    fc.assert(
      fc.property(histories, ({ shape, steps }) => {
        let ledger = readyLedger(shape);
        let nowMs = 0;
        for (const [{ eventOf }, pauseMs] of steps) {
          nowMs += pauseMs;
          const before = ledger;
          ledger = apply(ledger, eventOf(ledger, nowMs)).ledger;
          for (const [flow, { virtualSeconds }] of before.service?.flows ?? [])
            expect(flowOf(ledger, flow)?.virtualSeconds).toBeGreaterThanOrEqual(virtualSeconds);
          const classes = deficitsOf(ledger, nowMs);
          for (const siblings of [classes, ...classes.map(({ tenants }) => tenants)]) {
            const sum = siblings.reduce((total, each) => total + each.deficitGpuSeconds, 0);
            expect(sum).toBeCloseTo(0, 6);
          }
        }
      }),
      { numRuns: caseCount(100) },
    );
  });
});

test("flows that are idle and behind are forgotten when there are too many: they would be lifted there anyway", () => {
  const busy = granted(asked(READY, 0, { job: "a", tenant: "a", gpus: 2 }), 0, "a", 3);
  const flows = new Map(
    Array.from({ length: 1_100 }, (_, at) => [
      `training t${at}`,
      { receivedGpuSeconds: at, virtualSeconds: at / 10 },
    ]),
  );
  const ledger = asked(
    asked({ ...busy, service: { atMs: 0, flows } }, 10_000, { job: "x", tenant: "t500" }),
    20_000,
    { job: "y", tenant: "t600" },
  );
  expect(ledger.service?.flows.size).toBeLessThan(20);
  expect(flowOf(ledger, "training t500")?.virtualSeconds).toBeCloseTo(109.9);
  expect(flowOf(ledger, "training t600")?.virtualSeconds).toBeCloseTo(109.9);
});

/** `raise` and what it forgets, as the account's page writes them: over all flows. */
function lift(book: ServiceBook, flow: string): void {
  const parent = flow.includes(" ") ? (flow.split(" ")[0] ?? "") : "";
  const waiting = book.waiting.get(parent);
  if (waiting?.has(flow) === true) return;
  const stands = (of: string): number => book.flows.get(of)?.virtualSeconds ?? 0;
  const siblings = [...book.flows.keys()].filter((of) =>
    parent === "" ? !of.includes(" ") : of.startsWith(`${parent} `),
  );
  const floor =
    waiting === undefined
      ? Math.max(0, ...siblings.map(stands))
      : Math.min(...[...waiting.keys()].map(stands));
  const { receivedGpuSeconds = 0 } = book.flows.get(flow) ?? {};
  if (stands(flow) < floor) book.flows.set(flow, { receivedGpuSeconds, virtualSeconds: floor });
  if (book.flows.size <= 1_000) return;
  for (const of of siblings) if (isIdleFlow(book, of) && stands(of) < floor) book.flows.delete(of);
}

test("the least that is remembered is the least, and what is forgotten is what is idle behind it", () => {
  const [leased] = RUNNING.leases.values();
  if (leased === undefined) throw new Error("nothing runs");
  const { shape } = READY;
  const waitingOf = (tenant: string) => ({
    ...gangRequest({ job: `j-${tenant}`, tenant }),
    arrival: 1,
  });
  /** So many others that there are too many flows, if they wait; else they are few. */
  const opened = (doOthersWait: boolean): ServiceBook => {
    const others = Array.from({ length: doOthersWait ? 1_000 : 10 }, (_, at) => `other-${at}`);
    const requests = new Map(
      (doOthersWait ? others : []).map((tenant) => [jobId(tenant), waitingOf(tenant)] as const),
    );
    const flows = new Map(
      others.map((tenant, at) => [
        `training ${tenant}`,
        { receivedGpuSeconds: at, virtualSeconds: 5 + (at % 7) },
      ]),
    );
    return openBook({ shape, leases: new Map(), requests, service: { atMs: 0, flows } });
  };
  const steps = fc.array(
    fc.record({
      kind: fc.constantFrom("asks", "leaves", "starts", "ends"),
      tenant: fc.constantFrom("a", "b", "c"),
      seconds: fc.integer({ min: 0, max: 3 }),
    }),
    { minLength: 10, maxLength: 40 },
  );
  fc.assert(
    fc.property(fc.boolean(), steps, (doOthersWait, drawn) => {
      const book = opened(doOthersWait);
      const plain = opened(doOthersWait);
      const [waits, runs] = [new Set<string>(), new Set<string>()];
      let nowMs = 0;
      for (const { kind, tenant, seconds } of drawn) {
        nowMs += seconds * 1_000;
        const request = waitingOf(tenant);
        const lease = { ...leased, tenant: request.tenant };
        for (const each of [book, plain]) settle(each, nowMs);
        if (kind === "asks" && !waits.has(tenant)) {
          waits.add(tenant);
          lift(plain, "training");
          lift(plain, `training ${tenant}`);
          for (const each of [book, plain]) noteRequest(each, undefined, request);
        } else if (kind === "leaves" && waits.delete(tenant))
          for (const each of [book, plain]) noteRequest(each, request, undefined);
        else if (kind === "starts" && !runs.has(tenant)) {
          runs.add(tenant);
          for (const each of [book, plain]) noteLease(each, undefined, lease);
        } else if (kind === "ends" && runs.delete(tenant))
          for (const each of [book, plain]) noteLease(each, lease, undefined);
        plain.least.clear();
        plain.idleFrom.clear();
        const standings = ({ flows }: ServiceBook) => [
          flows.size,
          ...["training", ...[..."abc"].map((each) => `training ${each}`)].map((flow) =>
            flows.get(flow),
          ),
        ];
        expect(standings(book)).toEqual(standings(plain));
      }
    }),
    {
      numRuns: caseCount(300),
      examples: [
        [
          false,
          (
            ["asks a", "asks b", "starts a", "asks c", "leaves b", "leaves c", "asks b"] as const
          ).map((step) => {
            const [kind, tenant] = step.split(" ") as ["asks", "a"];
            return { kind, tenant, seconds: 1 };
          }),
        ],
      ],
    },
  );
});
