/** @file Reads a run of the fleet that is over, for as long as Temporal keeps it. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { Diverged, type Folded } from "../follow/fleet-run.ts";
import { openFollowedRun, type FollowedRun } from "../follow/followed-run.ts";
import { pagesOf } from "../follow/history-pages.ts";

export interface RunListener {
  readonly began: (ledger: Ledger, startedAtMs: number) => void;
  readonly folded: (folded: Folded) => void;
}

/** Tells the run as far as it can be followed, and returns the run before it; fails where Temporal has it no more. */
export type ReadEarlierRun = (runId: string, listener: RunListener) => Promise<string | undefined>;

export function earlierRuns({
  client,
  fleet,
  codecs,
  signal,
}: {
  readonly client: Client;
  readonly fleet: string;
  readonly codecs: readonly PayloadCodec[];
  readonly signal: AbortSignal;
}): ReadEarlierRun {
  return async (runId, listener) => {
    const execution = { workflowId: fleetWorkflowId(fleet), runId };
    let run: FollowedRun | undefined;
    for await (const events of pagesOf({ client, signal, execution, isFollowed: false })) {
      const [first] = events;
      if (first === undefined) continue;
      if (run === undefined) {
        run = await openFollowedRun(runId, first, codecs);
        listener.began(run.ledger(), run.startedAtMs);
      }
      try {
        for (const { folded } of await run.read(events)) folded.forEach(listener.folded);
      } catch (error) {
        if (!(error instanceof Diverged)) throw error;
        break;
      }
    }
    return run?.previousRunId;
  };
}
