/**
 * @file The slider of a large fleet: a ledger of 6,016 GPUs and 10,000 waiting jobs changes each second over two runs; random instants of the
 * console's own past are compared with the ledgers as they were recorded.
 *
 * The newer run is in memory as far as that has room; the older one is read again, as from the archive. Both times stand: to the whole answer as text, by the clock
 * and by processor time.
 */

import { createPast } from "../../console/past/past.ts";
import { stillOf } from "../../console/view/still.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import type { Ledger, LedgerEvent } from "../../scheduling/ledger/ledger.ts";
import type { Folded } from "../../console/follow/fleet-run.ts";
import type { PastAnswer } from "../../page/wire.ts";
import { atMost, barOf, exactly, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { drawnRequest, largeLedgers } from "../live/large-ledger.ts";
import { drawFrom, quantile, type Draw } from "../statistics.ts";
import { rowsHash } from "./slider-part.ts";

const GPUS_PER_HOST = 8;
const CYCLE_MS = 1_000;
const ENDS = 4;
const SHOWN_WITHIN_MS = 1_000;
const FLEET = "large";

interface Run {
  readonly runId: string;
  readonly opened: Ledger;
  readonly startedAtMs: number;
  readonly folded: readonly Folded[];
}

export async function measureLargePast(request: BenchRequest): Promise<readonly Bar[]> {
  const fleet = { gpus: GPUS_PER_HOST * request.size("hosts"), requests: request.size("waiting") };
  request.say(
    `past: ${String(2 * request.size("cycles"))} cycles of a fleet of ${String(fleet.gpus)} GPUs`,
  );
  const draw = drawFrom(request.seed);
  const [first] = largeLedgers(fleet, draw);
  if (first === undefined) throw new Error("a large fleet has no ledger");
  const older = playRun({ runId: "run-1", ...first }, draw, request);
  const last = older.folded.at(-1);
  const next = { ledger: last?.ledger ?? first.ledger, nowMs: last?.event.nowMs ?? first.nowMs };
  const newer = playRun({ runId: "run-2", ...next }, draw, request);
  const past = createPast((_runId, listener) => {
    listener.began(older.opened, older.startedAtMs);
    older.folded.forEach(listener.folded);
    return Promise.resolve(undefined);
  });
  past.begin({ ...newer, ledger: newer.opened, previousRunId: older.runId });
  newer.folded.forEach(past.add);
  const facts = { fleet: FLEET, atMs: 0 };
  const wallMs: number[] = [];
  const busyMs: number[] = [];
  let equal = 0;
  const count = request.size("instants");
  const [fromMs, toMs] = [older.startedAtMs, newer.folded.at(-1)?.event.nowMs ?? 0];
  for (let turn = 0; turn < count; turn += 1) {
    request.interrupted.throwIfAborted();
    const ms = fromMs + Math.floor(draw.unit() * (toMs - fromMs + 1));
    const [beganMs, began] = [performance.now(), process.cpuUsage()];
    const text = JSON.stringify(await past.at(ms, facts));
    wallMs.push(performance.now() - beganMs);
    const { user, system } = process.cpuUsage(began);
    busyMs.push((user + system) / 1_000);
    const { message } = JSON.parse(text) as PastAnswer;
    const ledger = ledgerAt(ms < newer.startedAtMs ? older : newer, ms);
    const wanted = stillOf({ ledger, decisions: [], facts: { ...facts, atMs: ms }, nowMs: ms });
    if (rowsHash(message) === rowsHash(wanted)) equal += 1;
  }
  const note = (of: readonly number[]): string =>
    `the slowest of ${String(count)}, the older run's reading included; median ${quantile(of, 0.5).toFixed(0)} ms; ${fleet.gpus.toLocaleString("en")} GPUs, ${fleet.requests.toLocaleString("en")} waiting jobs`;
  const time = { unit: "ms", target: atMost(SHOWN_WITHIN_MS) } as const;
  return [
    barOf({ id: "slider-large-equal", unit: "instants", target: exactly(count), got: equal }),
    barOf({ id: "slider-large-time", ...time, got: quantile(wallMs, 1), note: note(wallMs) }),
    barOf({ id: "slider-large-time-cpu", ...time, got: quantile(busyMs, 1), note: note(busyMs) }),
  ];
}

const ledgerAt = ({ opened, folded }: Run, ms: number): Ledger =>
  folded.filter(({ event }) => event.nowMs <= ms).at(-1)?.ledger ?? opened;

/** Each second some leases end, a job comes, and the freed GPUs are granted. */
function playRun(
  {
    runId,
    ledger: opened,
    nowMs: startedAtMs,
  }: { readonly runId: string; readonly ledger: Ledger; readonly nowMs: number },
  draw: Draw,
  { size, interrupted }: BenchRequest,
): Run {
  const folded: Folded[] = [];
  let ledger = opened;
  const decider = openSession(opened, { method: "baseline" });
  const fold = (event: LedgerEvent): void => {
    const before = ledger;
    ledger = apply(before, event).ledger;
    decider.apply(event);
    folded.push({ event, before, ledger });
  };
  const cycles = size("cycles");
  for (let cycle = 1; cycle <= cycles; cycle += 1) {
    interrupted.throwIfAborted();
    const nowMs = startedAtMs + cycle * CYCLE_MS;
    const held = [...ledger.leases.values()];
    const ends = Array.from({ length: Math.min(ENDS, held.length) }, () => {
      const { jobId, runId: run, seq } = held[draw.below(held.length)] ?? {};
      return { kind: "end", jobId, runId: run, seq, unconfirmedHosts: [] };
    });
    const number = 1_000_000 + cycle + (runId === "run-1" ? 0 : cycles);
    const wanted = { kind: "request", request: drawnRequest(draw, number, nowMs) };
    fold({ kind: "inbox", entries: [...ends, wanted], nowMs });
    fold({ kind: "plan", plan: decider.decide(nowMs), nowMs });
  }
  return { runId, opened, startedAtMs, folded };
}
