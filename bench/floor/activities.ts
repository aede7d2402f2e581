/** @file The floor's one activity: starts a process and waits for its end. */

import { spawn } from "node:child_process";
import { once } from "node:events";

export interface FloorActivities {
  startProcess(command: readonly string[]): Promise<number>;
}

export const floorActivities: FloorActivities = {
  startProcess: async ([file = "true", ...args]) => {
    const child = spawn(file, args, { stdio: "ignore" });
    await once(child, "exit");
    return child.exitCode ?? 1;
  },
};
