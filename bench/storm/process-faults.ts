/**
 * @file Faults of processes and networks: killed, frozen past their timeouts, cut off.
 *
 * Each starts at once and answers with a description and with its end, which the storm does not wait for. A target with a
 * fault already is skipped.
 */

import { setTimeout as sleep } from "node:timers/promises";
import type { FaultKind, Step } from "./schedule.ts";
import { FENCE_MS, SILENCE_MS, type Agent, type Site } from "./site.ts";
import type { Supervisor } from "./supervisor.ts";

export interface Fault {
  readonly what: string;
  /** Resolves when the harm is over. */
  readonly over: Promise<void>;
}

export const doneFault = (what: string): Fault => ({ what, over: Promise.resolve() });

/** A workflow task without an answer for 10 s goes to another worker. */
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
      return kill(oneOf(site.agents.filter(isWell), share)?.supervisor);
    case "freeze-jobs-worker":
      return freeze(site.jobsWorker, lastingMs(PAST_TASK_TIMEOUT, size));
    case "freeze-fleet-worker":
      return freeze(site.fleetWorker, lastingMs(PAST_TASK_TIMEOUT, size));
    case "freeze-agent-briefly":
      return freeze(oneOf(site.agents.filter(isWell), share)?.supervisor, lastingMs(BRIEF, size));
    case "freeze-agent-past-fence":
      return freeze(
        oneOf(site.agents.filter(isWell), share)?.supervisor,
        lastingMs(PAST_FENCE, size),
      );
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

const isWell = ({ supervisor, proxy }: Agent): boolean =>
  supervisor.pid() !== undefined && !supervisor.isFrozen() && !proxy.isCut();

async function kill(supervisor: Supervisor | undefined): Promise<Fault | undefined> {
  if (supervisor?.pid() === undefined) return undefined;
  const what = `kill -9 ${supervisor.name} (${String(supervisor.pid())})`;
  await supervisor.kill();
  return doneFault(what);
}

function freeze(supervisor: Supervisor | undefined, forMs: number): Fault | undefined {
  if (supervisor?.pid() === undefined || supervisor.isFrozen()) return undefined;
  supervisor.freeze();
  return {
    what: `SIGSTOP ${supervisor.name} for ${String(forMs)} ms`,
    over: sleep(forMs).then(() => supervisor.thaw()),
  };
}

function cut(agent: Agent | undefined, kind: FaultKind, size: number): Fault | undefined {
  if (agent === undefined) return undefined;
  const { supervisor, proxy } = agent;
  const forMs = lastingMs(kind === "cut-agent-briefly" ? BRIEF : PAST_FENCE, size);
  // The last digits of the size are as good a coin as any.
  const how = Math.floor(size * 1_000_003) % 2 === 0 ? "reset" : "hang";
  proxy.cut(how);
  return {
    what: `cut ${supervisor.name} off for ${String(forMs)} ms (${how})`,
    over: sleep(forMs).then(() => proxy.mend()),
  };
}
