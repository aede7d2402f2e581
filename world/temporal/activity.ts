/**
 * @file Activities: tried at least once each, with timeouts from the schedule and the start, heartbeats, retries and cancellation.
 *
 * The server learns of a worker's death by a timeout alone; what the worker had done by then has happened. An answer after a timeout counts for
 * nothing, and its sender is told that the server has forgotten the attempt.
 */

import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { Server } from "./server.ts";
import type { AnyRun } from "./workflow.ts";

export type ActivityEnd<Value> =
  | { readonly kind: "done"; readonly value: Value }
  /** `isFinal`: no retry mends it. */
  | { readonly kind: "failed"; readonly code: string; readonly isFinal?: true }
  | { readonly kind: "cancelled" }
  /** The function has returned; the attempt ends by a later word. */
  | { readonly kind: "stays open" };

export type ActivityOutcome<Value> =
  | Exclude<ActivityEnd<Value>, { readonly kind: "stays open" }>
  | { readonly kind: "timed out"; readonly isUntaken: boolean };

/** What the server answers to a heartbeat. */
export type Beat = "known" | "cancel" | "forgotten" | "unheard";

export interface Attempt<Value> {
  readonly process: Process;
  readonly heartbeatMs: number | undefined;
  /** When the server gave it out, by its clock. */
  readonly givenAtMs: number;
  readonly beat: (details?: unknown) => Task<Beat>;
  /** Ends an attempt that stays open. */
  readonly finish: (end: ActivityEnd<Value>) => Task<boolean>;
}

export interface ActivityOrder<Value> {
  readonly queue: string;
  readonly name: string;
  readonly startToCloseMs: number;
  readonly scheduleToStartMs?: number;
  readonly heartbeatMs?: number;
  /** Absent: without end. */
  readonly maxAttempts?: number;
  /** Waits for the attempt's own answer to a cancellation. */
  readonly isCancelAwaited?: true;
  readonly body: (attempt: Attempt<Value>) => Task<ActivityEnd<Value>>;
  readonly onEnd: (outcome: ActivityOutcome<Value>) => void;
}

export interface Activity {
  readonly cancel: () => void;
  /** Of the attempt under way; undefined when there is none. */
  readonly details: () => unknown;
  readonly isOpen: () => boolean;
}

const RETRY_MS = 500;
const RETRY_MAX_MS = 10_000;
const FINISH_TRIES = 3;

export function startActivity<Value>(
  server: Server,
  run: AnyRun,
  order: ActivityOrder<Value>,
): Activity {
  const { kernel, network } = server;
  let attempt = 0;
  let isStarted = false;
  let isClosed = false;
  let isCancelled = false;
  let beatAtMs = 0;
  let givenAtMs = 0;
  let details: unknown;

  function schedule(): void {
    attempt += 1;
    isStarted = false;
    givenAtMs = server.clockMs();
    details = undefined;
    const own = attempt;
    server.dispatch({
      queue: order.queue,
      isValid: () => isCurrent(own) && !isStarted,
      start: (process) => begin(own, process),
    });
    if (order.scheduleToStartMs === undefined) return;
    kernel.after(order.scheduleToStartMs, () => {
      if (isCurrent(own) && !isStarted) close({ kind: "timed out", isUntaken: true });
    });
  }

  function isCurrent(own: number): boolean {
    return own === attempt && !isClosed && run.isOpen();
  }

  function begin(own: number, process: Process): void {
    isStarted = true;
    beatAtMs = kernel.nowMs();
    kernel.tell(run.workflowId, process.name, () => `is to do ${order.name}`);
    kernel.after(order.startToCloseMs, () => {
      if (isCurrent(own)) endAttempt({ kind: "timed out", isUntaken: false });
    });
    if (order.heartbeatMs !== undefined) watchBeats(own, order.heartbeatMs);
    const finish = finisher(own, process);
    const face: Attempt<Value> = {
      process,
      heartbeatMs: order.heartbeatMs,
      givenAtMs,
      finish,
      *beat(next) {
        const reply = yield* network.call(process, (): Beat => {
          if (!isCurrent(own)) return "forgotten";
          beatAtMs = kernel.nowMs();
          if (next !== undefined) details = next;
          return isCancelled ? "cancel" : "known";
        });
        return reply.isHeard ? reply.value : "unheard";
      },
    };
    network.deliver(process, () => process.spawn(work(face)));
  }

  function* work(face: Attempt<Value>): Task<void> {
    const end = yield* order.body(face);
    if (end.kind !== "stays open") yield* face.finish(end);
  }

  function finisher(own: number, process: Process): Attempt<Value>["finish"] {
    return function* (end) {
      for (let tries = 0; tries < FINISH_TRIES; tries += 1) {
        const reply = yield* network.call(process, () => {
          if (isCurrent(own) && end.kind !== "stays open") endAttempt(end);
        });
        if (reply.isHeard) return true;
        yield* sleep(kernel, RETRY_MS);
      }
      return false;
    };
  }

  function watchBeats(own: number, heartbeatMs: number): void {
    kernel.after(beatAtMs + heartbeatMs - kernel.nowMs(), () => {
      if (!isCurrent(own) || !isStarted) return;
      if (beatAtMs + heartbeatMs > kernel.nowMs()) watchBeats(own, heartbeatMs);
      else endAttempt({ kind: "timed out", isUntaken: false });
    });
  }

  function endAttempt(outcome: ActivityOutcome<Value>): void {
    const mayRetry =
      (outcome.kind === "timed out" || (outcome.kind === "failed" && outcome.isFinal !== true)) &&
      attempt < (order.maxAttempts ?? Infinity) &&
      !isCancelled;
    if (!mayRetry) return close(outcome);
    attempt += 1;
    isStarted = false;
    const pauseMs = Math.min(RETRY_MS * 2 ** Math.min(attempt, 8), RETRY_MAX_MS);
    kernel.after(pauseMs, () => {
      if (!isClosed && run.isOpen()) schedule();
    });
  }

  function close(outcome: ActivityOutcome<Value>): void {
    isClosed = true;
    kernel.tell("server", run.workflowId, () => `${order.name} is over: ${outcome.kind}`);
    if (run.isOpen()) order.onEnd(outcome);
  }

  schedule();
  return {
    cancel: () => {
      if (isClosed || isCancelled) return;
      isCancelled = true;
      if (!isStarted || order.isCancelAwaited !== true) close({ kind: "cancelled" });
    },
    details: () => (isStarted && !isClosed && !isCancelled ? details : undefined),
    isOpen: () => !isClosed && run.isOpen(),
  };
}
