/** @file Hands out a cluster's GPUs by the blocks of the buddy placement alone, and takes them back. */

import { buddyBlocks } from "../../scheduling/placement/buddy-blocks.ts";

export interface BuddyAllocator {
  /** GPU numbers, ascending; undefined when no free block holds that many. */
  readonly take: (
    count: number,
    options?: { readonly isSameHost?: boolean },
  ) => readonly number[] | undefined;
  readonly give: (gpus: readonly number[]) => void;
  /** Sizes of the free blocks, largest first. */
  readonly freeBlocks: () => readonly number[];
}

/** `racks`: the GPU count of each host, by rack. GPUs are numbered in that order. */
export function buddyAllocator(racks: readonly (readonly number[])[]): BuddyAllocator {
  const blocks = buddyBlocks(racks);
  const isBusy = new Uint8Array(blocks.size);
  const free = (first: number, size: number): number =>
    isBusy.subarray(first, first + size).reduce((sum, busy) => sum + 1 - busy, 0);
  return {
    take: (count, options) => {
      const gpus = blocks.take(count, free, options)?.gpus;
      for (const gpu of gpus ?? []) isBusy[gpu] = 1;
      return gpus;
    },
    give: (gpus) => {
      for (const gpu of gpus) isBusy[gpu] = 0;
    },
    freeBlocks: () => blocks.freeBlocks(free),
  };
}
