/** @file The thread of a lane, started by `lane-port.ts` alone. */

import { parentPort, workerData } from "node:worker_threads";
import { runLane, type LaneSetup } from "./lane.ts";
import { bindThread } from "./own-core.ts";

// Started by `openLane` alone, which gives it a setup.
const setup = workerData as LaneSetup;
if (setup.processor !== undefined) bindThread(setup.processor);
if (parentPort !== null) void runLane(setup, parentPort);
