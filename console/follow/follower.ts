/**
 * @file Follows a fleet: reads its workflow's history, waits for new events, and goes on with the next run; never asks the workflow anything.
 *
 * A query or an update would wake a worker of the fleet; a read of history wakes nobody. Each run begins with the ledger that it carries, so
 * whatever went wrong is over with the run. At the end of a run the ledger followed is compared with the carried one of the next. When the
 * server does not answer, the run is read again from its start, and what was told already is not told again; where it is to blame itself, the newest
 * run is read. One call for each run asks the server how long the history is, to know when all of it has been read.
 */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { setTimeout as sleep } from "node:timers/promises";
import type { FleetInput } from "../../protocol/fleet.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { Diverged } from "./fleet-run.ts";
import { endOf, isGone, isServersFault, pagesOf, runNow, type RunEnd } from "./history-pages.ts";
import { openFollowedRun, type FoldedTask, type FollowedRun } from "./followed-run.ts";
import type { HistoryEvent } from "./workflow-task.ts";

export interface FollowerOptions {
  readonly client: Client;
  readonly fleet: string;
  /** Those of a worker, which pass on what they cannot read. */
  readonly codecs: readonly PayloadCodec[];
  readonly signal: AbortSignal;
  readonly listener: FollowerListener;
}

export interface FollowerListener {
  /** A run is followed from here on. */
  readonly began: (run: {
    readonly runId: string;
    readonly startedAtMs: number;
    readonly previousRunId: string | undefined;
    readonly ledger: Ledger;
  }) => void;
  readonly folded: (runId: string, task: FoldedTask) => void;
  /** Whether the history can be read; told on every change. */
  readonly reached: (trouble: string | undefined) => void;
  /** Whether the ledger is the fleet's own of now: read to the end, without trouble, followed exactly. Told on every change; it is not at first. */
  readonly current: (isCurrent: boolean) => void;
  /** A run ended with another ledger than the followed one, or its history was none of this machine. */
  readonly diverged: (runId: string, why: string) => void;
}

const RETRY_MS = 1_000;

/** Resolves when the signal ends it. */
export async function followFleet(options: FollowerOptions): Promise<void> {
  const { signal, listener } = options;
  let runId: string | undefined;
  let ended: string | undefined;
  let known: Known = { runId: "", firstRunId: "", event: 0 };
  let expected: FleetInput | undefined;
  let trouble: string | undefined;
  let isCurrent = false;
  const tellCurrent = (now: boolean): void => {
    if (now !== isCurrent) listener.current(now);
    isCurrent = now;
  };
  const tell = (now: string | undefined): void => {
    if (now !== trouble) listener.reached(now);
    trouble = now;
  };
  while (!signal.aborted) {
    let reading: Reading | undefined;
    try {
      reading = readRun(options, { runId, ended, known, expected, tell, tellCurrent });
      for await (const reached of reading.tasks) known = reached;
      const end = reading.end();
      if (end === undefined) continue;
      ended = known.runId;
      runId = end.nextRunId;
      expected = reading.next();
    } catch (error) {
      if (signal.aborted) return;
      tellCurrent(false);
      tell(error instanceof Error ? error.message : String(error));
      // What is kept no more is skipped.
      if (isGone(error)) runId = ended = expected = undefined;
      // Where it was the newest run, another one may be by the next try.
      else if (isServersFault(error)) runId = reading?.runId() ?? runId;
      // Read again it may fail for ever, so it is over with the run.
      else runId = expected = undefined;
      // Ends early with the signal.
      await sleep(RETRY_MS, undefined, { signal }).catch(() => undefined);
    }
  }
}

/** The last event that was told. */
interface Known {
  readonly runId: string;
  /** The run which continued as others up to this one. */
  readonly firstRunId: string;
  readonly event: number;
}

interface Reading {
  /** Undefined until the run has been opened. */
  readonly runId: () => string | undefined;
  readonly tasks: AsyncIterable<Known>;
  readonly end: () => RunEnd | undefined;
  readonly next: () => FleetInput | undefined;
}

/**
 * `runId`: absent for the newest one. `ended`: a run whose end is known, so the newest one must be another. Where that has continued others already which nobody has
 * followed, the first of them comes next. A reset continues the run that it ends, of which the new one has the beginning.
 */
function readRun(
  { client, fleet, codecs, signal, listener }: FollowerOptions,
  {
    runId: wanted,
    ended,
    known,
    expected,
    tell,
    tellCurrent,
  }: {
    readonly runId: string | undefined;
    readonly ended: string | undefined;
    readonly known: Known;
    readonly expected: FleetInput | undefined;
    readonly tell: (trouble: string | undefined) => void;
    readonly tellCurrent: (isCurrent: boolean) => void;
  },
): Reading {
  let run: FollowedRun | undefined;
  let end: RunEnd | undefined;
  let isLost = false;
  let firstRunId = "";
  let isAtEnd = false;
  return {
    tasks: tasks(),
    runId: () => run?.runId,
    end: () => end,
    next: () => (isLost ? undefined : run?.next()),
  };

  async function* tasks(): AsyncGenerator<Known> {
    const workflowId = fleetWorkflowId(fleet);
    tellCurrent(false);
    const asked = { client, signal, execution: { workflowId, runId: wanted ?? "" } };
    const { runId, length } = await runNow(asked);
    if (runId === ended) throw new Error(`fleet ${fleet} has ended and not begun again`);
    const execution = { workflowId, runId };
    for await (const events of pagesOf({ client, signal, execution })) {
      tell(undefined);
      const [first] = events;
      if (first === undefined) continue;
      if (run === undefined) {
        firstRunId = first.workflowExecutionStartedEventAttributes?.firstExecutionRunId ?? runId;
        if (isAfterOthers({ runId, firstRunId })) {
          end = { nextRunId: firstRunId };
          return;
        }
        run = await openFollowedRun(runId, first, codecs);
        if (runId !== known.runId) begin(run);
      }
      yield* told(run, events);
      // What comes from here on comes as it happens.
      isAtEnd ||= Number(events.at(-1)?.eventId) >= length;
      tellCurrent(isAtEnd && !isLost);
      end = endOf(events);
      if (end !== undefined) return;
    }
  }

  function isAfterOthers(newest: Pick<Known, "runId" | "firstRunId">): boolean {
    if (wanted !== undefined || ended === undefined) return false;
    return newest.firstRunId !== newest.runId && newest.firstRunId !== known.firstRunId;
  }

  function begin(opened: FollowedRun): void {
    const { runId, startedAtMs, previousRunId } = opened;
    if (expected !== undefined && JSON.stringify(expected.ledger) !== opened.carried)
      listener.diverged(runId, "the run before ended with another ledger than the followed one");
    listener.began({ runId, startedAtMs, previousRunId, ledger: opened.ledger() });
  }

  async function* told(
    opened: FollowedRun,
    events: readonly HistoryEvent[],
  ): AsyncGenerator<Known> {
    if (isLost) return;
    const { runId } = opened;
    try {
      for await (const folded of opened.read(events)) {
        const event = folded.task.lastEvent;
        if (runId === known.runId && event <= known.event) continue;
        listener.folded(runId, folded);
        yield { runId, firstRunId, event };
      }
    } catch (error) {
      if (!(error instanceof Diverged)) throw error;
      isLost = true;
      listener.diverged(runId, error.message);
    }
  }
}
