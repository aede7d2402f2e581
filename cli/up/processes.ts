/** @file The processes that `up` keeps running on this machine, and the command line of each. */

import type { UpControl, UpWorker } from "../../workers/state.ts";
import type { CommandContext } from "../command/command-context.ts";
import type { AgentPlace } from "./agents.ts";
import type { FleetNotes } from "./fleet-notes.ts";
import { logFileOf } from "./places.ts";
import type { WorkerSurroundings } from "./worker-environment.ts";
import { nameOf, startWorker } from "./worker-process.ts";

export interface ProcessSurroundings {
  readonly fleet: string;
  readonly stateDir: string;
  readonly surroundings: WorkerSurroundings;
}

type WorkerSettings = Pick<UpWorker, "role" | "cluster" | "host">;
/** `args` replace the arguments of a worker; an agent has its `agentArgs` beside them. */
export type ProcessSettings = WorkerSettings & {
  readonly args?: readonly string[];
  readonly agentArgs?: readonly string[];
};

export interface ProcessStarter {
  /** Starts the process unless it runs, and waits until it is ready. */
  readonly ensure: (settings: ProcessSettings) => Promise<void>;
  readonly startedCount: () => number;
}

export function createStarter(
  context: CommandContext,
  notes: FleetNotes,
  at: ProcessSurroundings,
): ProcessStarter {
  let startedCount = 0;
  return {
    async ensure(settings) {
      const running = notes.state().workers.find((worker) => isSame(worker, settings));
      if (running !== undefined) return;
      const { worker, ready } = startWorker(workerCommand(settings, at));
      startedCount += 1;
      await Promise.all([notes.write([worker]), ready]);
      context.say(`${nameOf(worker)}: ready`);
    },
    startedCount: () => startedCount,
  };
}

export function agentSettings({ cluster, host }: AgentPlace): WorkerSettings {
  return { role: "agent", cluster, ...(host !== undefined && { host }) };
}

function isSame(worker: UpWorker, settings: WorkerSettings): boolean {
  return (
    worker.role === settings.role &&
    worker.cluster === settings.cluster &&
    worker.host === settings.host
  );
}

function workerCommand(
  settings: ProcessSettings,
  at: ProcessSurroundings,
): Parameters<typeof startWorker>[0] {
  const { role, cluster, host, agentArgs = [] } = settings;
  const place = [
    ...(cluster === undefined ? [] : ["--cluster", cluster]),
    ...(host === undefined ? [] : ["--host", host]),
  ];
  const name = [role, cluster, host].filter((part) => part !== undefined).join("-");
  return {
    ...settings,
    args: settings.args ?? [
      ...["--role", role, ...place, "--fleet", at.fleet],
      ...agentArgs,
      ...at.surroundings.args,
    ],
    env: at.surroundings.env,
    logFile: logFileOf(at.stateDir, name),
  };
}

/** The processes of the control plane that `up` starts itself. */
export function controlSettings(
  mode: UpControl["mode"],
  { fleet, surroundings }: Pick<ProcessSurroundings, "fleet" | "surroundings">,
): readonly ProcessSettings[] {
  switch (mode) {
    case "always-on":
      return [{ role: "fleet" }, { role: "jobs" }, { role: "solver" }];
    case "supervisor":
      return [{ role: "supervisor", args: ["--fleet", fleet, ...surroundings.args] }];
    case "controller":
      return [];
  }
}

export const isControl = (role: UpWorker["role"]): boolean =>
  role === "fleet" || role === "jobs" || role === "solver" || role === "supervisor";
