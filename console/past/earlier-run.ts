/** @file Reads a run of the fleet that is over, for as long as Temporal keeps it. */

import type { Client } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { Diverged } from "../follow/fleet-run.ts";
import { openFollowedRun, type FollowedRun } from "../follow/followed-run.ts";
import { pagesOf } from "../follow/history-pages.ts";
import { createLedgerArchive, type LedgerArchive } from "./ledger-archive.ts";

export interface EarlierRun {
  readonly archive: LedgerArchive;
  /** The run before it. */
  readonly previousRunId: string | undefined;
}

/** As far as the run can be followed; fails where Temporal has it no more. */
export async function readEarlierRun(
  runId: string,
  {
    client,
    fleet,
    codecs,
    signal,
  }: {
    readonly client: Client;
    readonly fleet: string;
    readonly codecs: readonly PayloadCodec[];
    readonly signal: AbortSignal;
  },
): Promise<EarlierRun> {
  const archive = createLedgerArchive();
  const execution = { workflowId: fleetWorkflowId(fleet), runId };
  let run: FollowedRun | undefined;
  for await (const events of pagesOf({ client, signal, execution })) {
    const [first] = events;
    if (first === undefined) continue;
    if (run === undefined) {
      run = await openFollowedRun(runId, first, codecs);
      archive.begin(run.ledger(), run.startedAtMs);
    }
    try {
      for (const { folded } of await run.read(events))
        for (const { event, ledger } of folded) archive.add(event, ledger);
    } catch (error) {
      if (!(error instanceof Diverged)) throw error;
      break;
    }
  }
  return { archive, previousRunId: run?.previousRunId };
}
