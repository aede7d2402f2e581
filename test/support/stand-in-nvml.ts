/** @file A stand-in for NVIDIA's library `libnvidia-ml.so.1`, compiled from `stand-in-nvml.c`, and a view of a driver that is asked through it. */

import { spawnSync } from "node:child_process";
import { appendFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { DriverView } from "../../agent/system/gpu-driver.ts";

/** By the names of `stand-in-nvml.c`; a fact that is left out is one that the GPU does not support. */
export type NvmlGpu = Readonly<Record<string, string | number>>;

export interface StandInNvml {
  readonly view: DriverView;
  /** What its GPUs say from now on, and no Xid; `start`: what NVML answers to be started, or what it does then. */
  say(gpus: readonly NvmlGpu[], start?: string): void;
  /** Tells of an Xid of the GPU at this place; a negative number ends the events with that error. */
  tell(gpu: number, xid: number): void;
}

/** `program`: the one that asks NVML. `path`: where `nvidia-smi` is looked for. Undefined where the compiler fails. */
export function standInNvml(
  folder: string,
  { program, path = "" }: { readonly program: string; readonly path?: string },
): StandInNvml | undefined {
  const source = join(import.meta.dirname, "stand-in-nvml.c");
  const library = join(folder, "libnvidia-ml.so.1");
  const done = spawnSync("cc", ["-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"]);
  if (done.status !== 0) return undefined;
  return {
    view: { nvml: program, path, libraries: folder },
    say: (gpus, start = "start 0") => {
      const facts = gpus.map((gpu) =>
        ["gpu", ...Object.entries(gpu).map(([name, value]) => `${name} ${value}`)].join("\n"),
      );
      rmSync(join(folder, "xids"), { force: true });
      writeFileSync(join(folder, "gpus"), [start, ...facts, ""].join("\n"));
    },
    tell: (gpu, xid) => appendFileSync(join(folder, "xids"), `${gpu} ${xid}\n`),
  };
}
