/** @file The decider: an overdue thread is stood in for by the baseline's, not thrown away; a dead one is replaced; two fleets are kept apart. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createDecider, type Decider } from "../../activities/decider.ts";
import { serviceMark } from "../../domain/lease/kept-weights.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { Decision, Feed } from "../../protocol/control-contract.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { decide, decideBaseline } from "../../scheduling/cycle/decide.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import {
  acknowledgeChain,
  extendChain,
  figuresOf,
  NEW_CHAIN,
  type ChainLink,
  type EventChain,
} from "../../scheduling/ledger/event-chain.ts";
import { NEWEST_RULES, type Ledger, type LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import { gbps } from "../../domain/values/units.ts";
import { stepSubject } from "../../planning/parallelism/step-corrections.ts";
import { host, preset, siteOf } from "../planning/parallelism/sites.ts";
import { ask, fleetShape, readyLedger } from "../scheduling/builders.ts";

/** The machine may be busy; what the threads answer is the question here. */
const PATIENT = { fedMs: 60_000, wholeMs: 60_000 };
/** A thread that is late by ten seconds is taken for stuck. */
const HASTY = { fedMs: 3_000, wholeMs: 3_000 };
const LATE_MS = 2 * HASTY.wholeMs;

let dir: string;
beforeAll(() => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-decider-"));
});
afterAll(() => {
  rmSync(dir, { recursive: true, force: true });
});

describe("with threads that only wait", () => {
  /** Waits for as long as the question's `nowMs` says (the baseline's thread does not), dies of −1 and of −2 with its fellow. */
  const THREAD = `
  import { parentPort, threadId, workerData } from "node:worker_threads";
  const isBaseline = workerData.method === "baseline";
  parentPort.on("message", ({ id, nowMs, isFedOnly }) => {
    if (isFedOnly) return;
    if (nowMs === -2 || (nowMs === -1 && !isBaseline)) process.exit(1);
    if (!isBaseline) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, nowMs);
    const stats = { method: workerData.method, candidates: threadId };
    const planText = JSON.stringify({ items: [], pending: [], stats });
    parentPort.postMessage({ id, kind: "plan", planText, answer: String(id) });
  });
  `;
  const snapshot = packLedger(readyLedger(fleetShape([{}])));
  const fallbacks: string[] = [];
  let decider: Decider;
  beforeAll(() => {
    const threadFile = join(dir, "thread.mjs");
    writeFileSync(threadFile, THREAD);
    decider = createDecider({
      storeDir: dir,
      threadFile,
      deadlines: HASTY,
      onFallback: (reason) => fallbacks.push(reason),
    });
  });
  afterAll(() => decider.close());

  const answerAfter = async (forMs: number): Promise<readonly [method: string, thread: number]> => {
    const { stats } = await decider.decide(snapshot, forMs);
    return [stats.method, stats.candidates];
  };

  /** The thread of the first plan that came in time: on a busy machine its start may take longer than a question waits. */
  const threadOnceDecided = async (): Promise<number> => {
    for (;;) {
      const [method, thread] = await answerAfter(0);
      if (method === "decide") return thread;
      await sleep(20);
    }
  };

  test("one that overran keeps what it has loaded and answers again as soon as it is done", async () => {
    const before = await threadOnceDecided();
    fallbacks.length = 0;
    const [[late], [meanwhile]] = [await answerAfter(LATE_MS), await answerAfter(0)];
    expect([late, meanwhile]).toEqual(["baseline", "baseline"]);
    expect(fallbacks).toEqual([
      `no plan within ${HASTY.wholeMs} ms`,
      "the last question has not been answered yet",
    ]);
    expect(await threadOnceDecided()).toBe(before);
  });

  test("one that died is replaced", async () => {
    const before = await threadOnceDecided();
    expect((await answerAfter(-1))[0]).toBe("baseline");
    expect(await threadOnceDecided()).not.toBe(before);
  });

  test("when both fail, the plan is empty and the next cycle comes soon", async () => {
    expect(await decider.decide(snapshot, -2)).toEqual({
      items: [],
      pending: [],
      wakeAtMs: 998,
      stats: { method: "none", candidates: 0 },
    });
    expect(await threadOnceDecided()).toBeGreaterThan(0);
  });
});

describe("with its own threads", () => {
  let decider: Decider;
  beforeAll(() => {
    decider = createDecider({
      storeDir: dir,
      deadlines: PATIENT,
      onFallback: (reason) => expect(reason).toBe(""),
    });
  });
  afterAll(() => decider.close());

  /** A fleet as its machine would feed it. */
  function fleetOf(name: string) {
    let ledger: Ledger = readyLedger(fleetShape([{ hosts: [{}, {}] }]));
    let chain: EventChain = extendChain(NEW_CHAIN, { kind: "run", run: name, rules: NEWEST_RULES });
    let nowMs = 0;
    const fold = (event: LedgerEvent, link: ChainLink = event): void => {
      ledger = apply(ledger, event).ledger;
      chain = extendChain(chain, link);
    };
    const receive = (decision: Decision): Decision => {
      if (decision.kind === "plan") {
        const { plan, answer } = decision;
        chain = acknowledgeChain(chain);
        fold({ kind: "plan", plan, nowMs }, { kind: "plan-of", answer, nowMs });
      }
      return decision;
    };
    return {
      want: () => decide(ledger, nowMs),
      wantBaseline: () => decideBaseline(ledger, nowMs),
      submit(job: string, gpus: number): void {
        nowMs += 1_000;
        fold({ kind: "inbox", entries: [ask({ job, gpus, requestedAtMs: nowMs })], nowMs });
      },
      /** As in a workflow that was lost after the question. */
      copy: () => ({ ledger, chain, nowMs }),
      restore(copy: { ledger: Ledger; chain: EventChain; nowMs: number }): void {
        ({ ledger, chain, nowMs } = copy);
      },
      feed(by: Decider = decider): Promise<Decision> {
        const { since = "", links, hash } = chain;
        const figures = figuresOf(ledger);
        const feed: Feed = {
          fleet: name,
          run: name,
          rules: NEWEST_RULES,
          since,
          links,
          hash,
          figures,
        };
        return by.decideNext({ kind: "feed", feed, nowMs }).then(receive);
      },
      give(by: Decider = decider): Promise<Decision> {
        const packed: PackedLedger = packLedger(ledger);
        const kept = { fleet: name, hash: chain.hash, ledger: packed };
        return by.decideNext({ kind: "snapshot", snapshot: kept, nowMs }).then(receive);
      },
    };
  }

  test("it follows two fleets, and decides for each on its own ledger", async () => {
    const fleets = [fleetOf("eu"), fleetOf("us")];
    for (const fleet of fleets) {
      fleet.submit("a", 3);
      expect(await fleet.feed()).toEqual({ kind: "stale", reason: "new" });
      const want = fleet.want();
      expect(await fleet.give()).toMatchObject({ kind: "plan", plan: want });
    }
    for (const gpus of [2, 9, 1])
      for (const [at, fleet] of fleets.entries()) {
        fleet.submit(`b${String(gpus)}`, gpus + at);
        const want = fleet.want();
        expect(await fleet.feed()).toMatchObject({ kind: "plan", plan: want });
      }
  });

  test("a question that is asked twice has the same answer; one with other events is stale", async () => {
    const fleet = fleetOf("lost");
    fleet.submit("a", 3);
    await fleet.give();
    fleet.submit("b", 4);
    const before = fleet.copy();
    const first = await fleet.feed();
    fleet.restore(before);
    expect(await fleet.feed()).toEqual(first);
    fleet.restore(before);
    fleet.submit("c", 5);
    expect((await fleet.feed()).kind).toBe("plan");
    fleet.restore(before);
    fleet.submit("d", 5);
    expect(await fleet.feed()).toEqual({ kind: "stale", reason: "other" });
    const want = fleet.want();
    expect(await fleet.give()).toMatchObject({ plan: want });
  });

  test("it says where it priced places, and prices them by the steps that it is told of", async () => {
    const shape = fleetShape([{ hosts: [{}, {}] }, { hosts: [{}, {}] }]);
    const [slow, fast] = shape.clusters;
    if (slow === undefined || fast === undefined) throw new Error("no fleet");
    const clusters = [
      { ...slow, fabricGbps: gbps(10) },
      { ...fast, fabricGbps: gbps(400) },
    ];
    const training = JSON.stringify({ model: "gpt2-1.3b", batch: 64 });
    const decided = async (constraints: object): Promise<string> => {
      const { ledger } = apply(readyLedger({ ...shape, clusters }), {
        ...{ kind: "inbox", nowMs: 0 },
        entries: [ask({ gpus: 16, constraints })],
      });
      const snapshot = { fleet: "priced", hash: "h", ledger: packLedger(ledger) };
      const decision = await decider.decideNext({ kind: "snapshot", snapshot, nowMs: 1_000 });
      return decision.kind === "plan" ? (decision.plan.items[0]?.reason ?? "") : decision.kind;
    };
    const stepMs = (reason: string): number =>
      Number(/its step takes (\d+) ms there/.exec(reason)?.[1]);
    const plain = stepMs(await decided({ training }));
    const wanted = {
      ...{ clusters: clusters.map(({ id }) => id), areSteps: true },
      ...{ areMessages: false, areKeepers: false },
    };
    expect(decider.wanted("priced")).toEqual(wanted);
    const { model, gpuType } = stepSubject(
      preset("gpt2-1.3b"),
      siteOf(host("h", 8, { gpuType: slow.hosts[0]?.gpuType ?? "" })),
    );
    const step = {
      ...{ model, gpuType, plan: "DP 16", run: "r", tenant: "default", atMs: 0 },
      ...{ computeMs: 500, communicationMs: 500, otherMs: 0, predictedMs: 1_000 },
      measuredMs: 2_000,
    };
    decider.know({ fleet: "priced", steps: [step, step, step, step] });
    const ratio = stepMs(await decided({ training })) / plain;
    expect(ratio).toBeGreaterThan(1.3);
    expect(ratio).toBeLessThan(2.05);
    await decided({});
    expect(decider.wanted("priced")).toBeUndefined();
  });

  test("a decision is made again with what hosts have told since of the weights they keep", async () => {
    const constraints = { isSameHost: true };
    const { ledger } = apply(readyLedger(fleetShape([{ hosts: [{}, {}] }])), {
      ...{ kind: "inbox", nowMs: 0 },
      entries: [ask({ class: "inference", name: "pictures", constraints })],
    });
    const snapshot = { fleet: "served", hash: "h", ledger: packLedger(ledger) };
    const question = { kind: "snapshot", snapshot, nowMs: 1_000 } as const;
    const hostIn = (decision: Decision | undefined): string =>
      decision?.kind === "plan" ? String(decision.plan.items[0]?.gpus[0]?.host) : "";
    expect(hostIn(await decider.decideNext(question))).toBe("c0/h0");
    expect(decider.wanted("served")?.areKeepers).toBe(true);
    const services = [serviceMark({ tenant: "t", name: "pictures" })];
    decider.know({ fleet: "served", keepers: [{ host: parseHostId("c0/h1"), services }] });
    const again = await decider.decideAgain(question);
    expect(hostIn(again)).toBe("c0/h1");
    expect(again?.kind === "plan" && again.plan.items[0]?.reason).toMatch(/keeps the weights/);
  });

  test("another worker's decider has no ledger", async () => {
    const other = createDecider({ storeDir: dir, deadlines: PATIENT, onFallback: () => undefined });
    const fleet = fleetOf("moved");
    fleet.submit("a", 3);
    await fleet.give();
    fleet.submit("b", 3);
    expect(await fleet.feed(other)).toEqual({ kind: "stale", reason: "new" });
    await fleet.give(other);
    fleet.submit("c", 3);
    expect((await fleet.feed(other)).kind).toBe("plan");
    expect(await fleet.feed()).toEqual({ kind: "stale", reason: "other" });
    await other.close();
  });
});
