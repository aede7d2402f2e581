/**
 * @file Faults of processes, networks and the server: killed, frozen past their timeouts, cut off, kept down.
 *
 * Each starts at once and answers with what it did and with its end, which the storm does not wait for. A target that suffers
 * already is passed over.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { FaultKind, Step } from "./schedule.ts";
import { FENCE_MS, SILENCE_MS, type Agent, type Site } from "./site.ts";
import type { Keeper } from "./keeper.ts";

export interface Fault {
  readonly what: string;
  /** Resolves when the harm is over. */
  readonly over: Promise<void>;
}

/** A workflow task that nobody answers for 10 s goes to another worker. */
const TASK_TIMEOUT_MS = 10_000;

type Range = readonly [fromMs: number, toMs: number];
const PAST_TASK_TIMEOUT: Range = [TASK_TIMEOUT_MS + 500, TASK_TIMEOUT_MS + 3_000];
const BRIEF: Range = [500, FENCE_MS - 1_000];
/** The agent, or the shims in its place, have ended everything by then. */
const PAST_FENCE: Range = [FENCE_MS + SILENCE_MS, FENCE_MS + 3 * SILENCE_MS];

export const lastingMs = ([fromMs, toMs]: Range, size: number): number =>
  Math.round(fromMs + size * (toMs - fromMs));

/** Undefined when nothing of that kind can be harmed now, or the kind is another file's. */
export async function harm(site: Site, { kind, share, size }: Step): Promise<Fault | undefined> {
  switch (kind) {
    case "kill-jobs-worker":
      return kill(site.jobsWorker);
    case "kill-fleet-worker":
      return kill(site.fleetWorker);
    case "kill-agent":
      return kill(oneOf(site.agents.filter(isWell), share)?.keeper);
    case "freeze-jobs-worker":
      return freeze(site.jobsWorker, lastingMs(PAST_TASK_TIMEOUT, size));
    case "freeze-fleet-worker":
      return freeze(site.fleetWorker, lastingMs(PAST_TASK_TIMEOUT, size));
    case "freeze-agent-briefly":
      return freeze(oneOf(site.agents.filter(isWell), share)?.keeper, lastingMs(BRIEF, size));
    case "freeze-agent-past-fence":
      return freeze(oneOf(site.agents.filter(isWell), share)?.keeper, lastingMs(PAST_FENCE, size));
    case "cut-agent-briefly":
      return cut(oneOf(site.agents.filter(isWell), share), kind, size);
    case "cut-agent-past-fence":
      return cut(oneOf(site.agents.filter(isWell), share), kind, size);
    default:
      return undefined;
  }
}

export const oneOf = <T>(values: readonly T[], share: number): T | undefined =>
  values[Math.floor(share * values.length)];

const isWell = ({ keeper, proxy }: Agent): boolean =>
  keeper.pid() !== undefined && !keeper.isFrozen() && !proxy.isCut();

async function kill(keeper: Keeper | undefined): Promise<Fault | undefined> {
  if (keeper?.pid() === undefined) return undefined;
  const what = `kill -9 ${keeper.name} (${String(keeper.pid())})`;
  await keeper.kill();
  return { what, over: Promise.resolve() };
}

function freeze(keeper: Keeper | undefined, forMs: number): Fault | undefined {
  if (keeper?.pid() === undefined || keeper.isFrozen()) return undefined;
  keeper.freeze();
  return {
    what: `SIGSTOP ${keeper.name} for ${String(forMs)} ms`,
    over: sleep(forMs).then(() => keeper.thaw()),
  };
}

function cut(agent: Agent | undefined, kind: FaultKind, size: number): Fault | undefined {
  if (agent === undefined) return undefined;
  const { keeper, proxy } = agent;
  const forMs = lastingMs(kind === "cut-agent-briefly" ? BRIEF : PAST_FENCE, size);
  // The last digits of the size are as good a coin as any.
  const how = Math.floor(size * 1_000_003) % 2 === 0 ? "reset" : "hang";
  proxy.cut(how);
  return {
    what: `cut ${keeper.name} off for ${String(forMs)} ms (${how})`,
    over: sleep(forMs).then(() => proxy.mend()),
  };
}
