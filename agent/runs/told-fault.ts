/**
 * @file A broken GPU under a gang over several hosts: its job hears of it by the failure of `run`, and orders all hosts to write the checkpoint and to stop.
 *
 * One host alone could order its own ranks only, and the others would lose theirs before they are told to save anything. The note of the stop is written first, so
 * that the launch ends as by a fault of the host, whoever stops it. Where no order comes, as from a job that nobody can reach, the agent stops its own part.
 */

import { createJsonOnce, readJson } from "../folder/json-files.ts";
import type { StopNote } from "../folder/launch-files.ts";
import { hostFault } from "../system/failures.ts";
import { FINAL_KINDS, phaseOf, type LocalRun } from "./local-run.ts";

/** From the failure of an activity to an order takes a task of the workflow, and far less than this. */
const ORDER_MS = 30_000;
const LOOK_MS = 100;

/** Returns when the launch is being stopped or has ended, or is to be stopped by this agent itself. */
export async function tellFault(run: LocalRun, reason: string): Promise<void> {
  const { files, stored, system, attempts } = run;
  const isHeard = stored?.order.hearsOfFaults === true && attempts > 0;
  if (!isHeard || phaseOf(run).kind !== "running") return;
  const { clock } = system;
  const note: StopNote = { reason, atMs: clock.nowMs(), isHostFault: true };
  createJsonOnce(system.files, files.stop, note);
  run.fault.abort();
  const untilMs = clock.elapsedMs() + ORDER_MS;
  while (run.stopping === undefined && clock.elapsedMs() < untilMs) {
    if (FINAL_KINDS.some((kind) => kind === phaseOf(run).kind)) return;
    await clock.pause(LOOK_MS);
  }
}

/** With what was noted: an earlier stop may have come first. */
export function faultOf({ files, leaseId, system }: LocalRun): Error {
  const note = readJson<StopNote>(system.files, files.stop);
  const reason = note?.reason ?? `a GPU of ${leaseId} is broken`;
  return hostFault(reason, { faultAtMs: note?.atMs ?? system.clock.nowMs() });
}
