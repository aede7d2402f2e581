/** @file The thread of a lane, started by `lane-port.ts` alone. */

import { parentPort, workerData } from "node:worker_threads";
import type { LaneSetup } from "./lane-messages.ts";
import { runLane } from "./lane.ts";
import { bindThread } from "./own-core.ts";

// Only `openLane` starts this thread, with a setup.
const setup = workerData as LaneSetup;
if (setup.processor !== undefined) bindThread(setup.processor);
if (parentPort !== null) void runLane(setup, parentPort);
