/**
 * @file Binds each lane of a split model to a processor of its own, as each GPU belongs to one lane.
 *
 * The system by itself wakes a lane on the waker's processor, so two lanes that should run in parallel share one for a while.
 * Only Linux lists a process's processors and lets one thread be bound (`taskset` of util-linux); elsewhere, and with fewer
 * processors than lanes, lanes run where the system puts them.
 */

import { spawnSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** By lane; a lane that works alone needs none, and lanes never share one. */
export type LaneProcessors = ReadonlyMap<number, number>;

/** `gpuIds` are the host's, by lane, so that services of one host use different processors. */
export function laneProcessors(
  lanes: readonly number[],
  { gpuIds, allowed }: { readonly gpuIds: readonly number[]; readonly allowed: readonly number[] },
): LaneProcessors {
  const chosen = new Map(
    lanes.flatMap((lane) => {
      const processor = allowed[(gpuIds[lane] ?? lane) % allowed.length];
      return processor === undefined ? [] : [[lane, processor] as const];
    }),
  );
  const isShared = new Set(chosen.values()).size < lanes.length;
  return lanes.length < 2 || isShared ? new Map() : chosen;
}

/** The processors that this process may use; none where the system does not list them. */
export function allowedProcessors(): readonly number[] {
  try {
    const status = readFileSync("/proc/self/status", "utf8");
    return processorsIn(/^Cpus_allowed_list:\s*([\d,-]+)$/m.exec(status)?.[1] ?? "");
  } catch {
    return [];
  }
}

/** As Linux writes them: `0-3,8`. */
export const processorsIn = (list: string): readonly number[] =>
  list === ""
    ? []
    : list.split(",").flatMap((range) => {
        const [first = 0, last = first] = range.split("-").map(Number);
        return Array.from({ length: last - first + 1 }, (_, at) => first + at);
      });

/** Binds the calling thread. Where binding fails the thread runs unbound: slower, never wrong. */
export function bindThread(processor: number): void {
  const thread = basename(readlinkSync("/proc/thread-self"));
  spawnSync("taskset", ["--cpu-list", "--pid", String(processor), thread], { stdio: "ignore" });
}
