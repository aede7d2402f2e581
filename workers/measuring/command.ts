/**
 * @file The command line that measures one set: nccl-tests on one host, or over several through a launcher.
 *
 * One host: the program with `-g <GPUs>`, the GPUs being all that it sees. Several: one part for each host in the words of Open
 * MPI's mpirun, separated by `:`, each with its own CUDA_VISIBLE_DEVICES and one process for each GPU.
 */

import type { HostShares, MeasuringOrder } from "../../domain/bandwidth/measuring.ts";
import { membersOf } from "../../lib/bits.ts";

export interface SetCommand {
  readonly argv: readonly string[];
  /** Added to the environment. */
  readonly env: Readonly<Record<string, string>>;
}

export function setCommand(
  shares: HostShares,
  { program, launcher }: Pick<MeasuringOrder, "program" | "launcher">,
): SetCommand {
  const [first, ...others] = shares;
  if (first !== undefined && others.length === 0) {
    const gpus = membersOf(first[1]);
    return {
      argv: [...program, "-g", String(gpus.length)],
      env: { CUDA_VISIBLE_DEVICES: gpus.join(",") },
    };
  }
  const parts = shares.map(([host, mask]) => {
    const gpus = membersOf(mask);
    const slots = String(gpus.length);
    const visible = `CUDA_VISIBLE_DEVICES=${gpus.join(",")}`;
    return ["-np", slots, "-H", `${nameOf(host)}:${slots}`, "-x", visible, ...program, "-g", "1"];
  });
  return {
    argv: [...launcher, ...parts.flatMap((part, at) => (at === 0 ? part : [":", ...part]))],
    env: {},
  };
}

/** Hosts reach each other under the names that the fleet file gives them. */
const nameOf = (host: string): string => host.slice(host.indexOf("/") + 1);
