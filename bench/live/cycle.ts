/**
 * @file One scheduling cycle of a large fleet: how long `decide` and `apply` take, and how many bytes the fleet carries.
 *
 * Two ways, in turns on the same ledger. Plain: `decide` and `apply` alone. Live: what a cycle of the fleet's workflow really does,
 * that is the packed snapshot through JSON and payload codec to the decider's thread and the plan back. The answer is checked
 * before it counts: the ledger after it keeps its invariants, and both ways give the same plan.
 */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  decodeArrayFromPayloads,
  encodeToPayloads,
  loadDataConverter,
} from "@temporalio/common/lib/internal-non-workflow/index.js";
import type { LoadedDataConverter } from "@temporalio/common";
import { createDecider } from "../../activities/decider.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import { apply, checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { isolatedConnection } from "../../workers/connection.ts";
import type { FleetInput } from "../../protocol/messages.ts";
import { atMost, barOf, REPORTED, type Bar } from "../bar.ts";
import type { BenchRequest } from "../bench.ts";
import { drawFrom, quantile, spreadOf } from "../statistics.ts";
import { largeLedgers, type LedgerNow } from "./large-ledger.ts";

const MOST_MS = 200;
const MOST_BYTES = 2 ** 20;

interface CycleTimes {
  readonly plainMs: number;
  /** Processor time of the same. */
  readonly plainCpuMs: number;
  readonly liveMs: number;
  readonly granted: number;
  readonly carriedBytes: number;
  readonly plainBytes: number;
}

export async function measureCycle(request: BenchRequest): Promise<readonly Bar[]> {
  const { say, interrupted } = request;
  const size = { gpus: request.size("gpus"), requests: request.size("requests") };
  const count = request.size("ledgers");
  say(`cycle: filling a fleet of ${String(size.gpus)} GPUs`);
  const storeDir = await mkdtemp(join(tmpdir(), "orbweaver-bench-store-"));
  const fallbacks: string[] = [];
  const decider = createDecider({ storeDir, onFallback: (reason) => fallbacks.push(reason) });
  const { dataConverter } = isolatedConnection({ address: "none:1", namespace: "none" });
  const converter = loadDataConverter(dataConverter);
  const times: CycleTimes[] = [];
  try {
    for (const now of largeLedgers(size, drawFrom(request.seed))) {
      interrupted.throwIfAborted();
      const decideLive = (snapshot: PackedLedger, nowMs: number): Promise<Plan> =>
        decider.decide(snapshot, nowMs);
      // The first one warms the code up, in both ways, and does not count.
      const time = await oneCycle(now, { converter, decideLive });
      times.push(time);
      if (times.length > count) break;
      if (times.length % 5 === 0) say(`cycle: ${String(times.length)} of ${String(count)} ledgers`);
    }
  } finally {
    await decider.close();
    await rm(storeDir, { recursive: true, force: true });
  }
  return barsOf(times.slice(1), fallbacks.length);
}

function barsOf(times: readonly CycleTimes[], fallbacks: number): readonly Bar[] {
  const plain = spreadOf(times.map(({ plainMs }) => plainMs));
  const live = spreadOf(times.map(({ liveMs }) => liveMs));
  const carried = Math.max(...times.map(({ carriedBytes }) => carriedBytes));
  const uncoded = Math.max(...times.map(({ plainBytes }) => plainBytes));
  const granted = spreadOf(times.map((time) => time.granted));
  const ofAll = `${String(times.length)} ledgers; the median cycle grants ${String(granted.p50)} gangs`;
  return [
    barOf({ id: "cycle-p50", unit: "ms", target: REPORTED, got: plain.p50 }),
    barOf({ id: "cycle-p99", unit: "ms", target: atMost(MOST_MS), got: plain.p99, note: ofAll }),
    barOf({
      id: "cycle-cpu-p50",
      unit: "ms",
      target: REPORTED,
      got: quantile(
        times.map(({ plainCpuMs }) => plainCpuMs),
        0.5,
      ),
      note: "processor time of the same with its garbage collection; far below the other, the machine is busy",
    }),
    barOf({ id: "cycle-live-p50", unit: "ms", target: REPORTED, got: live.p50 }),
    barOf({
      id: "cycle-live-p99",
      unit: "ms",
      target: REPORTED,
      got: live.p99,
      note: `with packing, JSON, codec and the decider's thread; the baseline answered ${String(fallbacks)} times`,
    }),
    barOf({
      id: "carried-bytes",
      unit: "bytes",
      target: atMost(MOST_BYTES),
      got: carried,
      note: `the largest, after the codec; ${String(uncoded)} as JSON`,
    }),
  ];
}

interface CyclePorts {
  readonly converter: LoadedDataConverter;
  readonly decideLive: (snapshot: PackedLedger, nowMs: number) => Promise<Plan>;
}

async function oneCycle(
  { ledger, nowMs }: LedgerNow,
  { converter, decideLive }: CyclePorts,
): Promise<CycleTimes> {
  const cpuBefore = process.cpuUsage();
  const plainStartMs = performance.now();
  const plan = decide(ledger, nowMs);
  const { ledger: after, granted } = apply(ledger, { kind: "plan", plan, nowMs });
  const plainMs = performance.now() - plainStartMs;
  const { user, system } = process.cpuUsage(cpuBefore);
  const plainCpuMs = (user + system) / 1_000;

  const liveStartMs = performance.now();
  const sent = await encodeToPayloads(converter, packLedger(ledger), nowMs);
  const [snapshot] = await decodeArrayFromPayloads(converter, sent);
  // The trip through the payload keeps the type.
  const answer = await decideLive(snapshot as PackedLedger, nowMs);
  const [livePlan] = await decodeArrayFromPayloads(
    converter,
    await encodeToPayloads(converter, answer),
  );
  const applied = apply(ledger, { kind: "plan", plan: livePlan as Plan, nowMs });
  const liveMs = performance.now() - liveStartMs;

  const broken = checkLedger(after);
  if (broken.length > 0) throw new Error(`the cycle broke the ledger: ${broken.join("; ")}`);
  const isSamePlan =
    answer.stats.method === "baseline" || applied.granted.length === granted.length;
  if (!isSamePlan) throw new Error("the decider's thread gave another plan than `decide`");
  const carried = await carriedBytes(after, nowMs, converter);
  return { plainMs, plainCpuMs, liveMs, granted: granted.length, ...carried };
}

/** What continue-as-new carries; every waiting job has its reason, which is the largest size. */
async function carriedBytes(
  ledger: LedgerNow["ledger"],
  nowMs: number,
  converter: LoadedDataConverter,
): Promise<Pick<CycleTimes, "carriedBytes" | "plainBytes">> {
  const notified = [...ledger.reasons].map(([id, { code }]) => [id, code, nowMs] as const);
  const input: FleetInput = { name: "large", ledger: packLedger(ledger), notified };
  const [payload] = (await encodeToPayloads(converter, input)) ?? [];
  return {
    carriedBytes: payload?.data?.length ?? NaN,
    plainBytes: Buffer.byteLength(JSON.stringify(input)),
  };
}
