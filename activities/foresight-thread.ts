/** @file The thread of `foresight.ts`: unpacks a snapshot, plays the queue forward, answers. */

import { constants, setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { foresee } from "../scheduling/foresight.ts";
import { unpackLedger } from "../scheduling/ledger-codec.ts";
import type { ForesightQuestion } from "./foresight.ts";

const { snapshot, nowMs } = workerData as ForesightQuestion; // of the thread's only opener

// There 0 is this thread alone; elsewhere it would be the whole process.
if (process.platform === "linux") setPriority(0, constants.priority.PRIORITY_LOW);
parentPort?.postMessage(foresee(unpackLedger(snapshot), nowMs));
