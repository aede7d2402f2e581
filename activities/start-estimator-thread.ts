/** @file The thread of `start-estimator.ts`: unpacks a snapshot, simulates the queue, and answers. */

import { constants, setPriority } from "node:os";
import { parentPort, workerData } from "node:worker_threads";
import { estimateStarts } from "../scheduling/forecast/self-forecast.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { EstimateQuestion } from "./start-estimator.ts";

const { snapshot, nowMs } = workerData as EstimateQuestion; // of the thread's only opener

// On Linux, 0 means this thread alone; elsewhere it would mean the whole process.
if (process.platform === "linux") setPriority(0, constants.priority.PRIORITY_LOW);
parentPort?.postMessage(estimateStarts(unpackLedger(snapshot), nowMs));
