/**
 * @file The setting of workers on demand: a file in the state folder that `up` or `supervise` writes and `down` removes.
 *
 * A worker is started with its role and the path of this file. Without the file it ends at once, so a start that was under way
 * when the fleet went down does nothing. Secrets stay in the environment and are not in the file. Loaded before everything else
 * of a worker on demand, so it needs nothing but Node.
 */

import { rmSync } from "node:fs";
import { makeFolder, readFile, replaceFile } from "../../agent/system/state-files.ts";
import type { ConnectionFlags } from "../connection.ts";
import { onDemandDir, settingFileOf } from "./places.ts";

export interface OnDemandSetting {
  readonly stateDir: string;
  /** Relative paths in flags and environment are read from here. */
  readonly cwd: string;
  readonly flags: ConnectionFlags;
  /** Idle time after which a worker ends. */
  readonly idleMs: number;
  /** The build of the deployments' current version; absent: the workers serve the unversioned queues. */
  readonly buildId?: string;
}

/** Longer than the pauses within one job's start and end; short enough that an idle machine becomes idle. */
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

/** Stops further starts on demand. */
export function removeOnDemandSetting(stateDir: string): void {
  rmSync(settingFileOf(stateDir), { force: true });
}
