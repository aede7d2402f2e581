/**
 * @file A stand-in for what the kernel says of NVIDIA's driver, mounted for a command's processes alone: GPUs with ids and device numbers, and records of the kernel's log.
 *
 * Needs root, `unshare` and a kernel that shows what is covered.
 */

import { spawnSync } from "node:child_process";
import { appendFileSync, existsSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { isRoot } from "./as-user.ts";

export interface DriverGpu {
  readonly busId: string;
  readonly uuid: string;
  /** Of the device node, whose major number is 1: that of `/dev/zero` is 5. */
  readonly minor: number;
}

export interface StandInDriver {
  /** Words before a command that sees the stand-in. */
  readonly before: readonly string[];
  /** The files of the driver show these GPUs from now on. */
  show(gpus: readonly DriverGpu[]): void;
  /** Writes this text into the kernel's log. */
  log(text: string): void;
}

const COVERED = ["driver", "devices", "kmsg"] as const;
const PLACES = { driver: "/proc/driver", devices: "/proc/devices", kmsg: "/dev/kmsg" } as const;
const UNSHARE = ["unshare", "--mount", "--propagation", "private"] as const;
const MOUNTS = COVERED.map((name) => `mount --bind "$1/${name}" ${PLACES[name]}`).join(" && ");

/** Whether this machine can have one. */
export const canStandInDriver = (): boolean =>
  isRoot &&
  COVERED.every((name) => existsSync(PLACES[name])) &&
  spawnSync(UNSHARE[0], [...UNSHARE.slice(1), "true"]).status === 0;

export function standInDriver(dir: string, gpus: readonly DriverGpu[]): StandInDriver {
  const show = (shown: readonly DriverGpu[]): void => {
    const all = join(dir, "driver", "nvidia", "gpus");
    rmSync(all, { recursive: true, force: true });
    mkdirSync(all, { recursive: true });
    for (const { busId, uuid, minor } of shown) {
      mkdirSync(join(all, busId));
      const information = `GPU UUID: \t ${uuid}\nDevice Minor: \t ${minor}\n`;
      writeFileSync(join(all, busId, "information"), information);
    }
  };
  show(gpus);
  writeFileSync(join(dir, "devices"), "Character devices:\n  1 nvidia\n");
  const log = join(dir, "kmsg");
  writeFileSync(log, "");
  return {
    before: [...UNSHARE, "sh", "-c", `${MOUNTS} && shift && exec "$@"`, "sh", dir],
    show,
    // A record without a time is as of its reading.
    log: (text) => {
      appendFileSync(log, `${text}\n`);
    },
  };
}
