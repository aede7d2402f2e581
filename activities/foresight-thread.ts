/** @file The thread of `foresight.ts`: unpacks a snapshot, plays the queue forward, answers. */

import { constants, setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { foresee } from "../scheduling/foresight.ts";
import { unpackLedger, type PackedLedger } from "../scheduling/ledger-codec.ts";

const { snapshot, nowMs } = workerData as {
  readonly snapshot: PackedLedger;
  readonly nowMs: number;
};

// There 0 is this thread alone; elsewhere it would be the whole process.
if (process.platform === "linux") setPriority(0, constants.priority.PRIORITY_LOW);
parentPort?.postMessage(foresee(unpackLedger(snapshot), nowMs));
