/** @file Reads a run of the fleet that is over, for as long as Temporal or the archive keeps it. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { Diverged, type Folded } from "../follow/fleet-run.ts";
import { openFollowedRun, type FollowedRun } from "../follow/followed-run.ts";
import { pagesOf } from "../follow/history-pages.ts";
import type { RunPages } from "./run-archive.ts";

export interface RunListener {
  readonly began: (ledger: Ledger, startedAtMs: number) => void;
  readonly folded: (folded: Folded) => void;
}

/** Tells the run as far as it can be followed, and returns the run before it; fails where nobody has it any more. */
export type ReadEarlierRun = (runId: string, listener: RunListener) => Promise<string | undefined>;

/** The histories that Temporal has. */
export const runsOfTemporal =
  ({
    client,
    fleet,
    signal,
  }: {
    readonly client: Client;
    readonly fleet: string;
    readonly signal: AbortSignal;
  }): RunPages =>
  (runId) =>
    pagesOf({
      ...{ client, signal, isFollowed: false },
      execution: { workflowId: fleetWorkflowId(fleet), runId },
    });

export function earlierRuns(pages: RunPages, codecs: readonly PayloadCodec[]): ReadEarlierRun {
  return async (runId, listener) => {
    let run: FollowedRun | undefined;
    for await (const events of pages(runId)) {
      const [first] = events;
      if (first === undefined) continue;
      if (run === undefined) {
        run = await openFollowedRun(runId, first, codecs);
        listener.began(run.ledger(), run.startedAtMs);
      }
      try {
        for await (const { folded } of run.read(events)) folded.forEach(listener.folded);
      } catch (error) {
        if (!(error instanceof Diverged)) throw error;
        break;
      }
    }
    return run?.previousRunId;
  };
}
