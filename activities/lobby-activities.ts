/** @file Activities for lobbies on the jobs' workers: calling jobs in, and asking those whose rows were lost. */

import { heartbeat, log } from "@temporalio/activity";
import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import type { LobbyActivities, LobbyExit } from "../protocol/lobby-contract.ts";
import {
  callInSignal,
  fleetWorkflowId,
  JOB_WORKFLOW,
  lobbyLeaveSignal,
  lobbyNewsSignal,
  lobbyWorkflowId,
} from "../protocol/messages.ts";
import type { WordActivities } from "../protocol/word-proof.ts";
import { OTHER_TENANTS } from "../scheduling/ledger/intake.ts";
import { isFields } from "../lib/fields.ts";
import { listedRuns } from "./listed-runs.ts";
import { tellJob } from "./job-words.ts";
import { askOpenRun, askRun, isGone } from "./open-run.ts";
import { each } from "../lib/each.ts";
import { provenSignalsOf } from "./proven-signals.ts";
import { signedFleets } from "./signed-fleets.ts";
import { signalsOf, type ClosedRun } from "./started-with.ts";

/** `checkWords`: judges what lobbies of fleets that ask for proof were told before it is told again. */
export function createLobbyActivities(
  client: Client,
  { checkWords }: WordActivities,
): LobbyActivities {
  const askedBy = signedFleets(client);
  return {
    /**
     * A call that fails for another reason fails all, and all are repeated: a job that has heard changes nothing. One that was reset waits in no lobby under its
     * next run, so that is asked what it wants.
     */
    async callIn(calls, fleet) {
      const gone: number[] = [];
      await each(calls, async ({ jobId, runId, ...call }) => {
        try {
          const run = client.workflow.getHandle(jobId, runId);
          await tellJob({ client, run }, callInSignal, call);
        } catch (error) {
          if (!isGone(error)) throw error;
          await askOpenRun(client, jobId);
          gone.push(call.credit);
        }
      });
      const isProofAsked = (await askedBy(fleet)) === "all";
      return { gone: gone.sort((a, b) => a - b), ...(isProofAsked && { isProofAsked }) };
    },
    async retellLobby({ fleet, tenant, runs }) {
      const workflowId = lobbyWorkflowId(fleet, tenant);
      const lobby = client.workflow.getHandle(workflowId);
      const isProofAsked = (await askedBy(fleetWorkflowId(fleet))) === "all";
      for (const runId of runs) {
        const run = { workflowId, runId };
        if (await isForgotten(client, run)) continue;
        const told = isProofAsked
          ? provenSignalsOf(client, run, { names: RETOLD, checkWords })
          : signalsOf(client, run);
        for await (const page of told) {
          heartbeat();
          for (const { signal, read } of page) {
            if (!RETOLD.includes(signal)) continue;
            const value = valueOf(read);
            if (signal === lobbyLeaveSignal.name) await lobby.signal(signal, value);
            // The fleet gives credits that were not used again by itself.
            else if (isFields(value)) await lobby.signal(signal, { ...value, credits: [] });
          }
        }
      }
    },
    async musterJobs({ fleet, tenant }) {
      const ofTenant = tenant === OTHER_TENANTS ? "" : ` AND OrbweaverTenant = "${tenant}"`;
      const query = `OrbweaverFleet = "${fleet}" AND OrbweaverState = "pending" AND ExecutionStatus = "Running" AND WorkflowType = "${JOB_WORKFLOW}"${ofTenant}`;
      let jobs: { readonly jobId: string; readonly runId: string }[] = [];
      const ask = async (): Promise<void> => {
        heartbeat();
        await each(jobs, ({ jobId, runId }) => askRun(client, jobId, { runId }));
        jobs = [];
      };
      for await (const { workflowId: jobId, runId } of listedRuns(client, query)) {
        jobs.push({ jobId, runId });
        if (jobs.length >= 500) await ask();
      }
      await ask();
    },
  };
}

const RETOLD: readonly string[] = [lobbyLeaveSignal.name, lobbyNewsSignal.name];

/** The server keeps closed runs for some days, and a lobby may have gone on for longer since. */
async function isForgotten(client: Client, { workflowId, runId }: ClosedRun): Promise<boolean> {
  try {
    await client.workflow.getHandle(workflowId, runId).describe();
    return false;
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return true;
    throw error;
  }
}

/** Undefined for what is no value: the lobby that heard it made nothing of it either. */
function valueOf(read: () => unknown): unknown {
  try {
    return read();
  } catch {
    return undefined;
  }
}

/**
 * Tells the lobby in which a job waited that it does not any more; a tenant without a lobby of its own waits in that of the others. A word
 * that is lost costs a call in vain.
 */
export async function leaveLobby(
  client: Client,
  { fleet, tenant, ...leave }: LobbyExit,
): Promise<void> {
  for (const at of [tenant, OTHER_TENANTS]) {
    try {
      await client.workflow.getHandle(lobbyWorkflowId(fleet, at)).signal(lobbyLeaveSignal, leave);
      return;
    } catch (error) {
      if (isGone(error)) continue;
      log.info("a lobby could not be told of a job that left", {
        jobId: leave.jobId,
        error: String(error),
      });
      return;
    }
  }
}
