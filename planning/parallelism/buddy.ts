/**
 * @file A buddy allocator for the GPUs of a cluster: a request takes the smallest free block that holds it, split as far as possible.
 *
 * The binary tree follows locality: GPUs of a host, hosts of a rack, racks. Free blocks are searched from the smallest size that holds the
 * request, so a host is preferred to a rack and a rack to the whole; among equals the lowest GPU. The surplus of a block is returned at
 * once, in the largest blocks possible; freed blocks join their buddies again. A request gets exactly the GPUs that it asks for, or nothing.
 * Source: SpiderFlow appendix A, its text. The paper's listing differs twice: it descends while the block is larger than the request, so 3
 * become 2, and it looks for blocks of one size only, so a larger free one is never split.
 * Cost: O(log n) blocks for each request, found in a walk over the free blocks.
 * Not reached by the product yet: used by `bench plan` and tests.
 */

export interface BuddyAllocator {
  /** GPU numbers, ascending; undefined when no free block holds that many. */
  readonly take: (count: number) => readonly number[] | undefined;
  readonly give: (gpus: readonly number[]) => void;
  readonly freeGpus: () => number;
  /** Sizes of the free blocks, largest first. */
  readonly freeBlocks: () => readonly number[];
}

interface Block {
  readonly first: number;
  readonly size: number;
  readonly parent: Block | undefined;
  readonly halves: readonly [Block, Block] | undefined;
  /** `whole`: free and in no larger free block; `inside`: part of a larger free block. */
  state: "whole" | "inside" | "split" | "taken";
}

/** `racks`: the GPU count of each host, by rack. GPUs are numbered in that order. */
export function buddyAllocator(racks: readonly (readonly number[])[]): BuddyAllocator {
  let next = 0;
  const leaves: Block[] = [];
  const tree = rowOf(racks.map((hosts) => rowOf(hosts.map((count) => rowOf(ones(count))))));
  const root = tree === undefined ? undefined : build(tree, undefined);
  if (root !== undefined) root.state = "whole";
  const free = new Set<Block>(root === undefined ? [] : [root]);

  return { take, give, freeGpus, freeBlocks };

  function build(shape: Shape, parent: Block | undefined): Block {
    const first = next;
    const block: { -readonly [key in keyof Block]: Block[key] } = {
      first,
      size: shape.size,
      parent,
      halves: undefined,
      state: "inside",
    };
    if (shape.halves === undefined) {
      next += 1;
      leaves.push(block);
    } else block.halves = [build(shape.halves[0], block), build(shape.halves[1], block)];
    return block;
  }

  function take(count: number): readonly number[] | undefined {
    if (!Number.isInteger(count) || count < 1) return undefined;
    let chosen: Block | undefined;
    for (const block of free) {
      if (block.size < count) continue;
      const isBetter =
        chosen === undefined ||
        block.size < chosen.size ||
        (block.size === chosen.size && block.first < chosen.first);
      if (isBetter) chosen = block;
    }
    if (chosen === undefined) return undefined;
    const gpus: number[] = [];
    free.delete(chosen);
    carve(chosen, count, gpus);
    return gpus;
  }

  /** Takes `count` GPUs of a block that is in no free list, and frees the rest of it. */
  function carve(block: Block, count: number, gpus: number[]): void {
    if (count === 0) {
      block.state = "whole";
      free.add(block);
      return;
    }
    if (block.halves === undefined || count === block.size) {
      occupy(block);
      for (let gpu = block.first; gpu < block.first + block.size; gpu += 1) gpus.push(gpu);
      return;
    }
    block.state = "split";
    const [left, right] = block.halves;
    // One half that holds the request, the smaller one where both do; else the whole left half and a part of the right one.
    const isRightBetter = right.size >= count && (left.size < count || right.size < left.size);
    const fromLeft = isRightBetter ? 0 : Math.min(count, left.size);
    carve(left, fromLeft, gpus);
    carve(right, count - fromLeft, gpus);
  }

  function occupy(block: Block): void {
    block.state = block.halves === undefined ? "taken" : "split";
    for (const half of block.halves ?? []) occupy(half);
  }

  function give(gpus: readonly number[]): void {
    for (const gpu of gpus) {
      const leaf = leaves[gpu];
      if (leaf?.state !== "taken") throw new Error(`GPU ${gpu} is given back but was not taken`);
      leaf.state = "whole";
      free.add(leaf);
      join(leaf.parent);
    }
  }

  function join(block: Block | undefined): void {
    for (let at = block; at?.halves !== undefined; at = at.parent) {
      if (at.halves.some(({ state }) => state !== "whole")) return;
      for (const half of at.halves) {
        free.delete(half);
        half.state = "inside";
      }
      at.state = "whole";
      free.add(at);
    }
  }

  function freeGpus(): number {
    return [...free].reduce((sum, { size }) => sum + size, 0);
  }

  function freeBlocks(): readonly number[] {
    return [...free].map(({ size }) => size).sort((a, b) => b - a);
  }
}

interface Shape {
  readonly size: number;
  readonly halves?: readonly [Shape, Shape];
}

const ones = (count: number): readonly Shape[] =>
  Array.from({ length: count }, () => ({ size: 1 }));

/** A balanced binary tree over a row of shapes; undefined of none. */
function rowOf(row: readonly (Shape | undefined)[]): Shape | undefined {
  const shapes = row.filter((shape) => shape !== undefined);
  if (shapes.length <= 1) return shapes[0];
  const middle = Math.ceil(shapes.length / 2);
  const left = rowOf(shapes.slice(0, middle));
  const right = rowOf(shapes.slice(middle));
  if (left === undefined || right === undefined) return left ?? right;
  return { size: left.size + right.size, halves: [left, right] };
}
