/**
 * @file A processor for each lane of a split model, as each GPU is its lane's own.
 *
 * Left to itself the system wakes lanes on the processor of who wakes them, and two that should work side by side share one for a
 * while. Only Linux tells a process's processors and lets one thread be bound (`taskset` of util-linux); elsewhere, and where there
 * are fewer processors than lanes, lanes run where the system puts them.
 */

import { spawnSync } from "node:child_process";
import { readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";

/** By lane; a lane that works alone needs none, and lanes never share one. */
export type LaneProcessors = ReadonlyMap<number, number>;

/** `gpuIds` are the host's, by lane, so that services of one host keep apart. */
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

/** Those that this process may use; none where the system does not say. */
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

/** The calling thread, from now on. Where that cannot be done it runs on as it did: slower, never wrong. */
export function bindThread(processor: number): void {
  const thread = basename(readlinkSync("/proc/thread-self"));
  spawnSync("taskset", ["--cpu-list", "--pid", String(processor), thread], { stdio: "ignore" });
}
