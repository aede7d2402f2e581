/** @file Gangs that have lost a host: they start on what is kept for them and on a replacement, and on nothing less. */
import { describe, expect, test } from "vitest";
import { jobId, leaseId, token } from "../../../domain/values/ids.ts";
import { popCount } from "../../../domain/lease/lease.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { apply, checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  ask,
  end,
  fleetShape,
  gpus,
  host,
  inbox,
  leased,
  readyLedger,
  type ClusterSpec,
  type RequestSpec,
} from "../builders.ts";

const NOW_MS = 100_000;
const PARTS = ["c0/h0", "c0/h1", "c0/h2", "c0/h3"].map((name) => [name, 255] as const);

interface Scene {
  readonly clusters?: readonly ClusterSpec[];
  /** What runs on hosts beside the gang, each a job of one whole host. */
  readonly busy?: readonly string[];
  readonly gang?: RequestSpec;
  /** What waits besides, for longer. */
  readonly others?: readonly RequestSpec[];
}

/** `run` has lost c0/h3, keeps three hosts and asks again. */
function scene({
  clusters = [{ hosts: [{}, {}, {}, {}, {}] }],
  busy = [],
  gang = {},
  others = [],
}: Scene): Ledger {
  let ledger = leased(
    readyLedger(fleetShape(clusters)),
    { job: "run", gpus: 32, ...gang },
    gpus(...PARTS),
  );
  for (const name of busy)
    ledger = leased(ledger, { job: `on-${name}`, gpus: 8 }, gpus([name, 255]));
  ledger = apply(ledger, {
    kind: "delivered",
    accepted: [leaseId(token(1))],
    gone: [],
    nowMs: 0,
  }).ledger;
  ledger = inbox(ledger, others.map(ask), 1_000).ledger;
  ledger = apply(ledger, { kind: "fence", hosts: [host("c0/h3")], nowMs: NOW_MS }).ledger;
  const gone = { ...end("run"), returns: true, keepMs: 300_000 };
  const request = ask({ job: "run", gpus: 32, ...gang, seq: 2, requestedAtMs: NOW_MS });
  return inbox(ledger, [gone, request], NOW_MS).ledger;
}

/** The hosts that the next decision grants, by job, and the ledger after it. */
function decided(ledger: Ledger, nowMs = NOW_MS + 1) {
  const plan = decide(ledger, nowMs);
  const { ledger: after, refusals } = apply(ledger, { kind: "plan", plan, nowMs });
  expect(refusals).toEqual([]);
  expect(checkLedger(after)).toEqual([]);
  const hosts = Object.fromEntries(
    plan.items.map((item) => [
      item.request.jobId,
      item.gpus.map((part) => part.host as string).sort(),
    ]),
  );
  return { plan, after, hosts };
}

const MENDED = ["c0/h0", "c0/h1", "c0/h2", "c0/h4"];

describe("a gang that has lost a host", () => {
  test("starts at once where a replacement is free", () => {
    expect(decided(scene({})).hosts).toEqual({ run: MENDED });
  });

  test("goes before jobs of its class that wait for longer, also for the replacement", () => {
    const others = [
      { job: "early", gpus: 8 },
      { job: "large", gpus: 16 },
    ];
    expect(decided(scene({ others })).hosts).toEqual({ run: MENDED });
  });

  test("waits with the three while nothing else is free, says so, and starts when a host is", () => {
    const busy = scene({ busy: ["c0/h4"], others: [{ job: "early", gpus: 8 }] });
    const waiting = decided(busy);
    expect(waiting.hosts).toEqual({});
    expect(waiting.after.reasons.get(jobId("run"))).toMatchObject({
      code: "WaitingForReplacement",
      message: expect.stringContaining(
        "24 GPUs on 3 of its hosts are kept for it until 1970-01-01 00:06:40 UTC, and 8 more H100",
      ) as string,
      numbers: { needGpus: 32, keptGpus: 24, keptHosts: 3, keptUntilMs: 400_000 },
    });
    const freed = inbox(waiting.after, [end("on-c0/h4")], NOW_MS + 5_000).ledger;
    expect(decided(freed, NOW_MS + 5_001).hosts).toEqual({ run: MENDED });
  });

  test("goes before a job that has the replacement reserved for less than an hour", () => {
    const others = [{ job: "early", gpus: 8 }];
    const { after } = decided(scene({ busy: ["c0/h4"], others }));
    const reserved = [...(after.reservations ?? [])];
    expect(reserved.map(([job, { kind }]) => [job, kind])).toEqual([
      ["run", "replace"],
      ["early", "backfill"],
    ]);
    const both = { ...after, reservations: new Map(reserved.reverse()) };
    const freed = inbox(both, [end("on-c0/h4")], NOW_MS + 5_000).ledger;
    expect(decided(freed, NOW_MS + 5_001).hosts).toEqual({ run: MENDED });
  });

  test("takes no GPUs that are reserved for a job that has waited for an hour", () => {
    const ledger = scene({ busy: ["c0/h4"], others: [{ job: "early", gpus: 8 }] });
    const later = 3_601_000;
    const patient = {
      ...ledger,
      reservations: new Map(
        [...(ledger.reservations ?? [])].map(([job, each]) => [
          job,
          { ...each, untilMs: later + 100_000 },
        ]),
      ),
    };
    const waiting = decided(patient, later - 2);
    const freed = inbox(waiting.after, [end("on-c0/h4")], later - 1).ledger;
    expect(decided(freed, later).hosts).toEqual({ early: ["c0/h4"] });
  });

  test("says so as well where the fleet has no other host that answers", () => {
    const { after } = decided(scene({ clusters: [{ hosts: [{}, {}, {}, {}] }] }));
    expect(after.reasons.get(jobId("run"))?.code).toBe("WaitingForReplacement");
  });

  test("takes several hosts for the one where none is whole", () => {
    const clusters = [{ hosts: [{}, {}, {}, {}, { gpus: 4 }, { gpus: 4 }] }];
    const { plan } = decided(scene({ clusters }));
    expect(plan.items[0]?.gpus.reduce((sum, { mask }) => sum + popCount(mask), 0)).toBe(32);
    expect(plan.items[0]?.gpus).toHaveLength(5);
  });

  test("takes no GPUs of another type, and none beyond its quota", () => {
    const other = [{ hosts: [{}, {}, {}, {}, { type: "A100" }] }];
    expect(decided(scene({ clusters: other })).hosts).toEqual({});
    const avoided = { gang: { avoidHosts: [host("c0/h4")] } };
    expect(decided(scene(avoided)).hosts).toEqual({});
  });

  test("moves whole where another cluster has room and its own has not", () => {
    const clusters = [{ hosts: [{}, {}, {}, {}] }, { hosts: [{}, {}, {}, {}] }];
    expect(decided(scene({ clusters })).hosts).toEqual({
      run: ["c1/h0", "c1/h1", "c1/h2", "c1/h3"],
    });
  });

  test("goes on smaller after its gang timeout", () => {
    const gang = { gang: { min: 24, timeoutMs: 30_000 as never } };
    const ledger = scene({ busy: ["c0/h4"], gang });
    expect(decided(ledger).hosts).toEqual({});
    expect(decided(ledger, NOW_MS + 30_000).hosts).toEqual({ run: MENDED.slice(0, 3) });
  });

  test("queues as ever when its time is over: others have what it kept", () => {
    const ledger = scene({ busy: ["c0/h4"], others: [{ job: "early", gpus: 8 }] });
    const over = apply(decided(ledger).after, { kind: "clock", nowMs: NOW_MS + 300_000 }).ledger;
    expect(Object.keys(decided(over, NOW_MS + 300_001).hosts)).toEqual(["early"]);
  });
});

describe("what is kept", () => {
  test("is open to inference that would wait else, which takes no more than it needs", () => {
    const others = [{ job: "serve", gpus: 8, class: "inference" } as const];
    const { hosts, after } = decided(scene({ busy: ["c0/h4"], others }));
    expect(Object.keys(hosts)).toEqual(["serve"]);
    const kept = after.reservations?.get(jobId("run"));
    expect(kept).toMatchObject({ kind: "replace", untilMs: 400_000 });
    expect(kept?.gpus).toHaveLength(2);
  });

  test("is closed to interactive and training jobs", () => {
    const others = [
      { job: "notebook", gpus: 1, class: "interactive" } as const,
      { job: "short", gpus: 1, timeLimitMs: 1_000 as never },
    ];
    expect(decided(scene({ busy: ["c0/h4"], others })).hosts).toEqual({});
  });
});
