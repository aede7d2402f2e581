/**
 * @file A buddy allocator's blocks over the GPUs of a cluster: a request takes the smallest free block that holds it, split as far as possible.
 *
 * The binary tree follows locality: GPUs of a host, hosts of a rack, racks. A block is free when all of its GPUs are, so blocks join their
 * buddies by themselves, and nothing is kept but which GPUs are free. The smallest free block that holds the request is taken, so a host is
 * preferred to a rack and a rack to the whole; among equals the lowest GPU. The surplus of a block stays free, in the largest blocks
 * possible. A request gets exactly the GPUs that it asks for, or nothing.
 * Source: SpiderFlow appendix A, its text. The paper's listing differs twice: it descends while the block is larger than the request, so 3
 * become 2, and it looks for blocks of one size only, so a larger free one is never split.
 * Cost: O(hosts + GPUs of hosts that are free in part) each.
 */

export interface BuddyBlocks {
  readonly size: number;
  /** GPU numbers, ascending; undefined when no free block holds that many. `isSameHost`: all in one host. */
  readonly take: (
    count: number,
    free: FreeGpus,
    options?: { readonly isSameHost?: boolean },
  ) => Taken | undefined;
  /** Sizes of the free blocks, largest first. */
  readonly freeBlocks: (free: FreeGpus) => readonly number[];
}

/** The number of free GPUs among those from `first` on. */
export type FreeGpus = (first: number, size: number) => number;

export interface Taken {
  readonly gpus: readonly number[];
  /** Size of the block that they were taken from. */
  readonly block: number;
}

interface Block {
  readonly first: number;
  readonly size: number;
  /** GPUs of its largest host, or of the part of one that it is. */
  readonly widest: number;
  readonly halves?: readonly [Block, Block];
}

/** `racks`: the GPU count of each host, by rack. GPUs are numbered in that order. */
export function buddyBlocks(racks: readonly (readonly number[])[]): BuddyBlocks {
  let next = 0;
  const one = (): Block => ({ first: next++, size: 1, widest: 1 });
  const hostOf = (count: number): Block | undefined =>
    rowOf(Array.from({ length: count }, one), (left, right) => left + right);
  const root = rowOf(
    racks.map((hosts) => rowOf(hosts.map(hostOf), Math.max)),
    Math.max,
  );
  const blocks = (free: FreeGpus): readonly Block[] =>
    root === undefined ? [] : freeBlocks(root, free);
  return {
    size: next,
    take: (count, free, { isSameHost = false } = {}) => {
      if (!Number.isInteger(count) || count < 1) return undefined;
      const holds = ({ size, widest }: Block): boolean => (isSameHost ? widest : size) >= count;
      let chosen: Block | undefined;
      for (const block of blocks(free))
        if (holds(block) && block.size < (chosen?.size ?? Infinity)) chosen = block;
      if (chosen === undefined) return undefined;
      return { gpus: carved(chosen, count, holds), block: chosen.size };
    },
    freeBlocks: (free) =>
      blocks(free)
        .map(({ size }) => size)
        .sort((a, b) => b - a),
  };
}

/** The free blocks that are in no larger free one, from the lowest GPU on; the block itself where all of it is free. */
function freeBlocks(block: Block, free: FreeGpus): readonly Block[] {
  const { first, size, widest, halves } = block;
  if (size === widest) {
    const count = free(first, size);
    if (count === size) return [block];
    if (count === 0) return [];
  }
  if (halves === undefined) return [];
  const [left, right] = halves.map((half) => freeBlocks(half, free));
  const isWhole = left?.[0] === halves[0] && right?.[0] === halves[1];
  return isWhole ? [block] : [...(left ?? []), ...(right ?? [])];
}

/** The first GPUs of the part that holds `count`: one half where one does, the smaller where both do; else all of the left one and more. */
function carved(block: Block, count: number, holds: (block: Block) => boolean): readonly number[] {
  if (block.halves === undefined || count === block.size)
    return Array.from({ length: count }, (_, at) => block.first + at);
  const [left, right] = block.halves;
  const isRightBetter = holds(right) && (!holds(left) || right.size < left.size);
  if (isRightBetter) return carved(right, count, holds);
  if (holds(left)) return carved(left, count, holds);
  const rest = count - left.size;
  return [...carved(left, left.size, holds), ...carved(right, rest, ({ size }) => size >= rest)];
}

/** A balanced binary tree over a row of blocks; undefined of none. `widest`: that of two halves. */
function rowOf(
  row: readonly (Block | undefined)[],
  widest: (left: number, right: number) => number,
): Block | undefined {
  const blocks = row.filter((block) => block !== undefined);
  if (blocks.length <= 1) return blocks[0];
  const middle = Math.ceil(blocks.length / 2);
  const left = rowOf(blocks.slice(0, middle), widest);
  const right = rowOf(blocks.slice(middle), widest);
  if (left === undefined || right === undefined) return left ?? right;
  return {
    first: left.first,
    size: left.size + right.size,
    widest: widest(left.widest, right.widest),
    halves: [left, right],
  };
}
