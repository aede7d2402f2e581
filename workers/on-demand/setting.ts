/**
 * @file What a worker on demand is told: a file in the state folder that `up` or `supervise` writes and `down` removes.
 *
 * Whoever starts such a worker names its role and this file, nothing else; without the file the worker ends at once, so that a
 * start that was on its way when the fleet went down does nothing. Secrets are not in it: they stay in the environment.
 * Loaded before everything else of a worker on demand, so it needs nothing but Node.
 */

import { rmSync } from "node:fs";
import { makeFolder, readFile, replaceFile } from "../../activities/agent/state-files.ts";
import type { ConnectionFlags } from "../connection.ts";
import { onDemandDir, settingFileOf } from "./places.ts";

export interface OnDemandSetting {
  readonly stateDir: string;
  /** Relative paths in flags and environment are read from here. */
  readonly cwd: string;
  readonly flags: ConnectionFlags;
  /** A worker ends after so long without work. */
  readonly idleMs: number;
  /** The build that the deployments' current version is; absent: the workers serve the unversioned queues. */
  readonly buildId?: string;
}

/** Enough for the pauses inside one job's start and end; short enough that an idle machine is idle. */
export const DEFAULT_IDLE_MS = 15_000;

export function writeOnDemandSetting(setting: OnDemandSetting): string {
  makeFolder(onDemandDir(setting.stateDir));
  const file = settingFileOf(setting.stateDir);
  replaceFile(file, setting);
  return file;
}

/** Undefined when the fleet is down. */
export const readOnDemandSetting = (file: string): OnDemandSetting | undefined =>
  readFile<OnDemandSetting>(file);

/** From here on no worker starts on demand. */
export function removeOnDemandSetting(stateDir: string): void {
  rmSync(settingFileOf(stateDir), { force: true });
}
