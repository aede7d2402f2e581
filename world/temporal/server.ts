/**
 * @file The server as its clients and workers see it: workflows by id, task queues, and its clock. It is durable; only its network fails.
 *
 * Signals of one sender keep their order, because a sender waits for each; those of several senders come as the network brings them. A call of
 * a function here is what the server does; who calls from elsewhere goes through the network.
 */

import type { Kernel } from "../kernel/kernel.ts";
import type { Network } from "../kernel/network.ts";
import type { Process } from "../kernel/process.ts";
import { EPOCH_MS } from "../settings.ts";
import { copied, type AnyRun, type RunEnd, type RunIdentity } from "./workflow.ts";

/** A workflow task or an activity task that waits for a worker. */
export interface QueuedTask {
  readonly queue: string;
  /** The worker that has the run's state. */
  readonly sticky?: Process;
  readonly isValid: () => boolean;
  readonly start: (process: Process) => void;
}

export interface ServerPorts {
  readonly kernel: Kernel;
  readonly network: Network;
  readonly onViolation: (law: string, message: string) => void;
  /** A run has changed, or has closed. */
  readonly onChange: (kind: string, run: AnyRun) => void;
  /** A workflow that is open was told something. */
  readonly onSignal: (kind: string, workflowId: string, signal: Signal) => void;
}

export interface Signal {
  readonly name: string;
  readonly payload?: unknown;
  /** Only to this run. */
  readonly runId?: string;
  /** It cannot be true, so nothing follows from it but from what of it is whole. */
  readonly isBroken?: true;
}

export interface Started {
  readonly kind: string;
  readonly input: unknown;
  readonly run: AnyRun;
}

/** With a base: after a reset of a run of the same type to a later task. */
export type OpenKind = (identity: RunIdentity, input: unknown, base?: unknown) => AnyRun;

export type Server = ReturnType<typeof createServer>;

interface Former {
  readonly base: unknown;
  readonly startedAtMs: number;
}

const MOST_TOLD = 200;

/** The start of a payload; a story needs no more of it. */
const told = (payload: unknown): string => (JSON.stringify(payload) ?? "").slice(0, MOST_TOLD);

const POLL_MS = 2;

export function createServer({ kernel, network, onViolation, onChange, onSignal }: ServerPorts) {
  const kinds = new Map<string, OpenKind>();
  const runs = new Map<string, Started>();
  const byRunId = new Map<string, AnyRun>();
  const pollers = new Map<string, { readonly process: Process; readonly incarnation: number }[]>();
  let waiting: QueuedTask[] = [];
  let skewMs = 0;
  let runCount = 0;
  let replays = 0;

  const isPolling = (process: Process, incarnation: number): boolean =>
    process.isUp() && process.incarnation() === incarnation && network.reaches(process);

  function pollerOf({ queue, sticky }: QueuedTask): Process | undefined {
    const able = (pollers.get(queue) ?? []).filter(({ process, incarnation }) =>
      isPolling(process, incarnation),
    );
    const kept = able.find(({ process }) => process === sticky);
    return (kept ?? able[kernel.random.below(Math.max(1, able.length))])?.process;
  }

  function offer(task: QueuedTask): boolean {
    if (!task.isValid()) return true;
    const process = pollerOf(task);
    if (process === undefined) return false;
    const incarnation = process.incarnation();
    kernel.after(kernel.random.exponential(POLL_MS), () => {
      if (!task.isValid()) return;
      if (isPolling(process, incarnation)) task.start(process);
      else dispatch(task);
    });
    return true;
  }

  function dispatch(task: QueuedTask): void {
    if (!offer(task)) waiting.push(task);
  }

  function flush(): void {
    const tasks = waiting;
    waiting = tasks.filter((task) => !offer(task));
  }

  function start(kind: string, workflowId: string, input: unknown): void {
    begin({ kind, input }, workflowId);
  }

  function begin({ kind, input }: Omit<Started, "run">, workflowId: string, former?: Former): void {
    const open = kinds.get(kind);
    if (open === undefined) throw new Error(`no workflow type is called ${kind}`);
    if (runs.get(workflowId)?.run.isOpen() === true) return;
    runCount += 1;
    const given = copied(input);
    const runId = `run-${runCount}`;
    const startedAtMs = former?.startedAtMs ?? clockMs();
    const run = open({ workflowId, runId, startedAtMs }, given, former?.base);
    runs.set(workflowId, { kind, input: given, run });
    byRunId.set(runId, run);
  }

  const clockMs = (): number => EPOCH_MS + Math.floor(kernel.nowMs()) + skewMs;

  return {
    kernel,
    network,
    clockMs,
    jumpClock: (byMs: number): void => {
      skewMs += byMs;
    },
    register: (kind: string, open: OpenKind): void => void kinds.set(kind, open),
    dispatch,
    flush,
    /** From now on until it dies the process takes tasks of this queue. */
    poll: (queue: string, process: Process): void => {
      const incarnation = process.incarnation();
      const others = (pollers.get(queue) ?? []).filter((each) => each.process !== process);
      pollers.set(queue, [...others, { process, incarnation }]);
      flush();
    },
    /** As a server does that fails: what no task has made durable is gone. */
    loseUpdates: (): void => {
      for (const { run } of runs.values()) run.loseUpdates();
    },
    /** Starts it, unless a run of this id is open. */
    start,
    openRun: (workflowId: string): AnyRun | undefined => {
      const run = runs.get(workflowId)?.run;
      return run?.isOpen() === true ? run : undefined;
    },
    /**
     * To its first task: another run begins with the same input, and is told all that this one was told. Or to a later one, with a share of its tasks, where it has
     * so many.
     */
    reset: (workflowId: string, share = 0): void => {
      const last = runs.get(workflowId);
      if (last?.run.isOpen() !== true) return;
      const { startedAtMs } = last.run;
      const base = last.run.baseAt(share);
      runs.delete(workflowId);
      last.run.terminate();
      if (base !== undefined) return begin(last, workflowId, { base, startedAtMs });
      start(last.kind, workflowId, last.input);
      const next = runs.get(workflowId)?.run;
      if (next !== undefined) last.run.repeatTo(next);
    },
    lastRun: (workflowId: string): Started | undefined => runs.get(workflowId),
    openIds: (kind: string): readonly string[] =>
      [...runs].flatMap(([id, each]) => (each.kind === kind && each.run.isOpen() ? [id] : [])),
    /** False when there is no such open run. */
    signal: (workflowId: string, { name, payload, runId, isBroken }: Signal): boolean => {
      const { kind = "", run } = runs.get(workflowId) ?? {};
      if (run?.isOpen() !== true || (runId !== undefined && run.runId !== runId)) return false;
      kernel.tell("server", workflowId, () => `${name} ${told(payload)}`);
      onSignal(kind, workflowId, { name, payload, ...(isBroken && { isBroken }) });
      run.signal({ name, payload, ...(isBroken && { isBroken }) });
      return true;
    },
    /** What these runs were told, in order. */
    signalsOf: (runIds: readonly string[]) =>
      runIds.flatMap((runId) => byRunId.get(runId)?.signals() ?? []),
    /** Whether a worker would answer a question about the run now. */
    isAnswering: (queue: string): boolean =>
      (pollers.get(queue) ?? []).some(({ process, incarnation }) =>
        isPolling(process, incarnation),
      ),
    closed: (run: AnyRun, how: RunEnd): void => {
      const started = runs.get(run.workflowId);
      if (started?.run.runId !== run.runId) return;
      kernel.tell(run.workflowId, run.workflowId, () => `ends: ${how.kind}`);
      onChange(started.kind, run);
      if (how.kind === "continued") start(started.kind, run.workflowId, how.input);
    },
    committed: (run: AnyRun): void => {
      const started = runs.get(run.workflowId);
      if (started?.run.runId === run.runId) onChange(started.kind, run);
    },
    noteReplay: (): void => {
      replays += 1;
    },
    replays: (): number => replays,
    onViolation,
  };
}
