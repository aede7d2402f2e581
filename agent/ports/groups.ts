/**
 * @file Groups of processes that the kernel keeps (cgroups), as the agent's logic sees them: a process is born into its parent's group and
 * stays there over fork, exec and `setsid`.
 *
 * A group is named by the path of its folder. Nothing here waits.
 */

export interface MemoryUse {
  /** The most that the group has used at once, file cache included; absent where the kernel does not say (version 2 before Linux 5.19). */
  readonly peakBytes?: number;
  /** Processes that the kernel killed because the group was at its limit. */
  readonly oomKills: number;
}

export interface MemoryLimit {
  readonly bytes: number;
  readonly endsWhole: boolean;
}

export interface DeviceWall {
  readonly denied: readonly string[];
  /** `agent/native/device-filter.c`, for version 2. */
  readonly filter?: string;
}

export interface Groups {
  /** Makes the group with its parents; nothing happens when it is there. Throws the system's error. */
  make(path: string): void;
  /** The most processes and threads that the group may hold; more are not forked. Throws the system's error. */
  limitPids(path: string, most: number): void;
  /**
   * The most memory that the group may use, file cache included, swap none. At its end the kernel kills in the group alone: all of it where it
   * `endsWhole` and the kernel can, else one process. Throws the system's error.
   */
  limitMemory(path: string, limit: MemoryLimit): void;
  /** The group's weight against others where processors are short; `of` is what all groups of the host share. Throws the system's error. */
  weighCpus(path: string, share: { readonly cpus: number; readonly of: number }): void;
  /**
   * Refuses its processes the devices with these major and minor numbers (`195:3`), whoever they are; by the program where the group has no file for it.
   * Throws the system's error.
   */
  denyDevices(path: string, wall: DeviceWall): void;
  /** What its memory came to; undefined where it is not counted. */
  memoryUse(path: string): MemoryUse | undefined;
  /** The pids in the group and in those below it, zombies perhaps included; none when there is no such group. */
  pids(path: string): readonly number[];
  /** The names of the groups right below. */
  below(path: string): readonly string[];
  /** Sends KILL to every process of the group at once, so that none can fork away. */
  kill(path: string): void;
  /** Removes the group and those below it; one that still holds a process stays. Whether the group is gone. */
  remove(path: string): boolean;
  /** Removes the group where neither a process nor another group is in it; it stays otherwise. */
  removeEmpty(path: string): void;
}
