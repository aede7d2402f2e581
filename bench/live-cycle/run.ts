/**
 * @file Live cycles of a large fleet, a continue-as-new of it, decisions on fresh ledgers, and the rival that sends its ledger every time.
 *
 * Wall and processor time stand side by side, because a busy machine stretches the one and not the other; processor time has all threads.
 * The answer is checked before it counts: the ledger keeps its invariants, and the fed decider's plan is that of the whole ledger.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { loadDataConverter } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { createDecider, type Decider } from "../../activities/decider.ts";
import { apply, checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import { OLDEST_RULES, type LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import { isolatedConnection } from "../../workers/connection.ts";
import { atLeast, atMost, barOf, exactly, REPORTED, type Bar } from "../bar.ts";
import type { BenchAnswer, BenchRequest } from "../bench.ts";
import type { LiveCyclePart } from "../live-cycle.ts";
import { drawnRequest, largeLedgers } from "../live/large-ledger.ts";
import { drawFrom, spreadOf, type Draw, type Spread } from "../statistics.ts";
import { askWithLedger, driveFleet, type DrivenFleet } from "./driven-fleet.ts";

const turnOfTheLoop = promisify(setImmediate);
const WARM_CYCLES = 10;
/** The rival takes its turn after so many cycles. */
const RIVAL_EVERY = 10;
const CONTINUED = 10;
const CYCLE_MS = 1_000;
/** As old as a run is at least that operators have changed (machines/fleet/continue.ts). */
const RUN_MS = 2_000;

interface Time {
  readonly wallMs: number;
  readonly cpuMs: number;
}

export async function runLiveCycle(request: BenchRequest): Promise<BenchAnswer> {
  const chosen = new Set(request.chosen("only"));
  const isChosen = (part: LiveCyclePart): boolean => chosen.has(part);
  const bars: Bar[] = [];
  if (isChosen("cycle"))
    bars.push(
      ...(await measureCycles(request, {
        name: "live-cycle",
        requests: request.size("requests"),
        want: { p50: 50, p99: 100, continued: 300 },
      })),
    );
  if (isChosen("fresh")) bars.push(...measureFresh(request));
  if (isChosen("most"))
    bars.push(
      ...(await measureCycles(request, {
        name: "full-cycle",
        requests: request.size("most"),
        want: { p99: 150, waiting: request.size("most") },
      })),
    );
  return { bars };
}

interface Measured {
  readonly name: string;
  readonly requests: number;
  /**
   * `continued`: the ends of runs are measured as well. A fleet that holds requests back for slow lobbies does not end its run. `waiting`: so
   * many requests are to fit.
   */
  readonly want: {
    readonly p50?: number;
    readonly p99: number;
    readonly continued?: number;
    readonly waiting?: number;
  };
}

async function measureCycles(request: BenchRequest, part: Measured): Promise<readonly Bar[]> {
  const { say, interrupted } = request;
  const { name, requests, want } = part;
  const size = { gpus: request.size("gpus"), requests };
  say(`${name}: filling a fleet of ${String(size.gpus)} GPUs`);
  const draw = drawFrom(request.seed);
  const [first] = largeLedgers(size, draw);
  if (first === undefined) throw new Error("no ledger");
  const storeDir = await mkdtemp(join(tmpdir(), "orbweaver-bench-store-"));
  const fallbacks: string[] = [];
  const decider = createDecider({ storeDir, onFallback: (reason) => fallbacks.push(reason) });
  const { dataConverter } = isolatedConnection({ address: "none:1", namespace: "none" });
  const converter = loadDataConverter(dataConverter);
  try {
    const baseline = openSession(first.ledger, { method: "baseline" });
    // A worker folds them in a thread of its own: here after the cycle, which is not to wait for it.
    const toFold: LedgerEvent[] = [];
    const fleet = driveFleet({ name: "large", ledger: packLedger(first.ledger) }, first.nowMs, {
      converter,
      decider,
      onEvent: (event) => toFold.push(event),
    });
    const times = {
      all: [] as Time[],
      within: [] as Time[],
      rival: [] as Time[],
      plain: [] as Time[],
    };
    let { nowMs } = first;
    const waiting = fleet.state().ledger.requests.size;
    for (let count = 0; count < WARM_CYCLES + request.size("cycles"); count += 1) {
      interrupted.throwIfAborted();
      nowMs += CYCLE_MS;
      const entries = changesOf(fleet, { draw, changes: request.size("changes"), count, nowMs });
      // As between two cycles of a worker, which begin with signals: what threads have sent arrives.
      await turnOfTheLoop();
      const runs = fleet.runs();
      const time = await timed(() => fleet.cycle(entries, nowMs));
      for (const event of toFold.splice(0)) baseline.apply(event);
      if (count < WARM_CYCLES) continue;
      times.all.push(time);
      if (fleet.runs() === runs) times.within.push(time);
      times.plain.push(await timed(() => baseline.decide(nowMs)));
      if (count % RIVAL_EVERY === 0)
        times.rival.push(await rival(fleet, nowMs, { converter, decider }));
      if (count % 50 === 0) say(`${name}: ${String(count)} cycles`);
    }
    const method = { ...fleet.answers };
    check(fleet, nowMs);
    const cycles = spreads(times.within);
    const old = spreads(times.rival);
    const plain = spreads(times.plain);
    const note = `${String(times.within.length)} of ${String(times.all.length)} cycles in which no run ended; ${String(waiting)} requests waited at first; processor time of all threads p50 ${text(cycles.cpu.p50)}, p99 ${text(cycles.cpu.p99)} ms`;
    return [
      barOf({
        id: `${name}-p50`,
        unit: "ms",
        target: want.p50 === undefined ? REPORTED : atMost(want.p50),
        got: cycles.wall.p50,
        note,
      }),
      barOf({ id: `${name}-p99`, unit: "ms", target: atMost(want.p99), got: cycles.wall.p99 }),
      ...waitingBars(part, waiting),
      barOf({
        id: `${name}-with-ends-of-runs-p99`,
        unit: "ms",
        target: REPORTED,
        got: spreads(times.all).wall.p99,
        note: `all ${String(times.all.length)} cycles, ${String(times.all.length - times.within.length)} of which end a run on the way`,
      }),
      barOf({
        id: `${name}-baseline-answers`,
        unit: "cycles",
        target: exactly(0),
        got: method.baseline + method.none,
        note: `${String(method.decide)} plans by decide, ${String(method.stale)} answers stale`,
      }),
      barOf({
        id: `${name}-sent-whole-p50`,
        unit: "ms",
        target: REPORTED,
        got: old.wall.p50,
        note: `the rival: the same with the whole ledger, without fold and post, ${String(old.wall.count)} times; p99 ${text(old.wall.p99)}, processor time p50 ${text(old.cpu.p50)} ms`,
      }),
      barOf({
        id: `${name}-baseline-p99`,
        unit: "ms",
        target: atMost(20),
        got: plain.wall.p99,
        note: `a decision of the fed baseline; processor time p50 ${text(plain.cpu.p50)} ms`,
      }),
      ...(want.continued === undefined
        ? []
        : [await measureEnds(fleet, { name, mostMs: want.continued, nowMs })]),
    ];
  } finally {
    await decider.close();
    await rm(storeDir, { recursive: true, force: true });
  }
}

const waitingBars = ({ name, want }: Measured, got: number): readonly Bar[] =>
  want.waiting === undefined
    ? []
    : [
        barOf({
          id: `${name}-requests`,
          unit: "requests",
          target: atLeast(want.waiting),
          got,
          note: "that fit inside at first, beside the leases",
        }),
      ];

async function measureEnds(
  fleet: DrivenFleet,
  {
    name,
    mostMs,
    nowMs,
  }: { readonly name: string; readonly mostMs: number; readonly nowMs: number },
): Promise<Bar> {
  const times: Time[] = [];
  const { stale } = fleet.answers;
  for (let count = 0; count <= CONTINUED; count += 1) {
    const runs = fleet.runs();
    await turnOfTheLoop();
    const time = await timed(() => fleet.continueAsNew(nowMs + (count + 1) * RUN_MS));
    if (fleet.runs() === runs) throw new Error("the run did not end");
    if (count > 0) times.push(time);
  }
  const { wall, cpu } = spreads(times);
  return barOf({
    id: `${name}-continue-p99`,
    unit: "ms",
    target: atMost(mostMs),
    got: wall.p99,
    note: `end of a run to the first plan of the next, without the server, ${String(wall.count)} times; p50 ${text(wall.p50)}, processor time p50 ${text(cpu.p50)} ms; ${String(fleet.answers.stale - stale)} answers stale`,
  });
}

/** Half of them ends of leases, the others new requests. */
function changesOf(
  fleet: DrivenFleet,
  {
    draw,
    changes,
    count,
    nowMs,
  }: {
    readonly draw: Draw;
    readonly changes: number;
    readonly count: number;
    readonly nowMs: number;
  },
): readonly unknown[] {
  const leases = [...fleet.state().ledger.leases.values()].filter(({ state }) => state === "held");
  return Array.from({ length: changes }, (_, at) => {
    const lease = leases[draw.below(Math.max(1, leases.length))];
    if (at % 2 === 1 || lease === undefined)
      return {
        kind: "request",
        request: drawnRequest(draw, 10 ** 6 + count * changes + at, nowMs),
      };
    const { jobId, runId, seq } = lease;
    return { kind: "end", jobId, runId, seq, unconfirmedHosts: [] };
  });
}

async function rival(
  fleet: DrivenFleet,
  nowMs: number,
  ports: { readonly converter: ReturnType<typeof loadDataConverter>; readonly decider: Decider },
): Promise<Time> {
  // As a fleet of version 1 would have it; the accounts of the fleet's own ledger stay with that one.
  const ledger = { ...fleet.state().ledger, applyVersion: OLDEST_RULES };
  return timed(async () => {
    const plan = await askWithLedger({ ledger: packLedger(ledger), nowMs }, ports);
    apply(ledger, { kind: "plan", plan, nowMs });
  });
}

function check(fleet: DrivenFleet, nowMs: number): void {
  const { ledger } = fleet.state();
  const broken = checkLedger(ledger);
  if (broken.length > 0) throw new Error(`the cycles broke the ledger: ${broken.join("; ")}`);
  const { stats: _fed, ...fed } = openSession(ledger).decide(nowMs);
  const { stats: _whole, ...whole } = decide(unpackLedger(packLedger(ledger)), nowMs);
  if (JSON.stringify(fed) !== JSON.stringify(whole))
    throw new Error("the session gives another plan than `decide` on the packed ledger");
}

function measureFresh(request: BenchRequest): readonly Bar[] {
  const size = { gpus: request.size("gpus"), requests: request.size("requests") };
  const count = request.size("ledgers");
  request.say(`fresh: ${String(count)} ledgers of ${String(size.gpus)} GPUs`);
  const times: Time[] = [];
  for (const { ledger, nowMs } of largeLedgers(size, drawFrom(request.seed))) {
    request.interrupted.throwIfAborted();
    const sent = JSON.stringify(packLedger(ledger));
    const cpu = process.cpuUsage();
    const startMs = performance.now();
    decide(unpackLedger(JSON.parse(sent) as ReturnType<typeof packLedger>), nowMs);
    times.push(since(startMs, cpu));
    if (times.length > count) break;
  }
  // The first one warms the code up.
  const { wall, cpu } = spreads(times.slice(1));
  const note = `${String(wall.count)} ledgers, read from JSON; processor time p50 ${text(cpu.p50)}, p99 ${text(cpu.p99)} ms`;
  return [
    barOf({ id: "fresh-decide-p50", unit: "ms", target: REPORTED, got: wall.p50, note }),
    barOf({ id: "fresh-decide-p99", unit: "ms", target: atMost(150), got: wall.p99 }),
  ];
}

async function timed(work: () => unknown): Promise<Time> {
  const cpu = process.cpuUsage();
  const startMs = performance.now();
  await work();
  return since(startMs, cpu);
}

function since(startMs: number, before: NodeJS.CpuUsage): Time {
  const wallMs = performance.now() - startMs;
  const { user, system } = process.cpuUsage(before);
  return { wallMs, cpuMs: (user + system) / 1_000 };
}

const spreads = (times: readonly Time[]): { readonly wall: Spread; readonly cpu: Spread } => ({
  wall: spreadOf(times.map(({ wallMs }) => wallMs)),
  cpu: spreadOf(times.map(({ cpuMs }) => cpuMs)),
});

const text = (ms: number): string => ms.toFixed(1);
