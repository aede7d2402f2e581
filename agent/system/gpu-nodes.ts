/**
 * @file The GPUs of this machine as its NVIDIA driver shows them in `/proc`: ids and device nodes, in PCI order, as leases count.
 *
 * The number of a node need not be the index, so it is read and never guessed.
 */

import { join } from "node:path";
import type { ImageGpu } from "../images/image-launch.ts";
import { namesIn, textOf } from "./system-files.ts";

/** None where there is no driver, or one that says less. */
export function gpuNodes(proc = "/proc"): readonly ImageGpu[] {
  const folder = join(proc, "driver", "nvidia", "gpus");
  const texts = namesIn(folder).map((busId) => textOf(join(folder, busId, "information")));
  const gpus = texts.flatMap((text, index) => {
    const uuid = /^GPU UUID:\s*(GPU-[0-9a-f-]{36})$/m.exec(text)?.[1];
    const minor = /^Device Minor:\s*(\d+)$/m.exec(text)?.[1];
    return uuid === undefined || minor === undefined
      ? []
      : [{ index, uuid, node: `/dev/nvidia${minor}` }];
  });
  // Half a list would move the others' indices.
  return gpus.length === texts.length ? gpus : [];
}
