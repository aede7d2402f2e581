/**
 * @file The files of workers on demand: one folder in a fleet's state folder, with their setting, launchers and locks.
 *
 * Loaded before everything else of such a worker, so it needs nothing but Node.
 */

import { join } from "node:path";

/** The roles of the control plane. They hold no state, so they need not run while there is no work. */
export const CONTROL_ROLES = ["fleet", "jobs", "solver"] as const;
export type ControlRole = (typeof CONTROL_ROLES)[number];

export const isControlRole = (text: string | undefined): text is ControlRole =>
  CONTROL_ROLES.some((role) => role === text);

/** Equal to the names in `protocol/`, which this file must not load; a test compares them. */
export const TASK_QUEUES: Readonly<Record<ControlRole, string>> = {
  fleet: "orbweaver-fleet",
  jobs: "orbweaver-jobs",
  solver: "orbweaver-solver",
};

const SIBLINGS: Readonly<Record<ControlRole, ControlRole | undefined>> = {
  fleet: "jobs",
  jobs: "fleet",
  solver: undefined,
};

/** The role that is needed soon after this one: a job asks its fleet, and a fleet answers its jobs. Few of them need a solver. */
export const siblingOf = (role: ControlRole): ControlRole | undefined => SIBLINGS[role];

export const onDemandDir = (stateDir: string): string => join(stateDir, "on-demand");

/** The setting of every worker on demand of the fleet; without it none starts. */
export const settingFileOf = (stateDir: string): string =>
  join(onDemandDir(stateDir), "setting.json");

/** The program that Temporal's worker controller runs. */
export const launcherFileOf = (stateDir: string, role: ControlRole): string =>
  join(onDemandDir(stateDir), `start-${role}-worker`);

/** Workers of different builds serve different tasks, so each build has a lock of its own. */
export const lockFileOf = (stateDir: string, role: ControlRole, buildId = "any"): string =>
  join(onDemandDir(stateDir), `${role}@${buildId}.lock`);
