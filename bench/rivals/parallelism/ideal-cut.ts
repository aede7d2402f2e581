/**
 * @file The optimum of a pipeline's slowest stage, where the operators have few ideals: sets that hold with each operator all before it.
 *
 * Every pipeline is a chain of ideals, one a border, and what crosses a border depends on its ideal alone; so dynamic programming over pairs of ideals
 * is exact (Tarnawski et al., NeurIPS 2020, section 5). All stages must be alike. Pairs whose work alone exceeds a pipeline that is known are left out.
 * Shares no code with the product's cut but the graph. Cost: O(ideals² × stages) at most.
 */

import type { PipelineTask } from "../../../planning/parallelism/pipeline-stages.ts";

interface Ideal {
  readonly members: Uint32Array;
  readonly size: number;
  readonly workMs: number;
  readonly heldBytes: number;
  readonly borderMs: number;
}

/** The least time of the slowest stage up to `knownMs`; undefined where there are more than `mostIdeals`. */
export function idealBottleneck(
  task: PipelineTask,
  { knownMs, mostIdeals }: { readonly knownMs: number; readonly mostIdeals: number },
): number | undefined {
  const ideals = idealsOf(task, mostIdeals);
  if (ideals === undefined) return undefined;
  const [stage] = task.stages;
  if (stage === undefined) return undefined;
  const most = knownMs * (1 + 1e-9);
  const count = task.stages.length;
  const best = ideals.map(() => new Float64Array(count + 1).fill(Infinity));
  best[0]?.fill(0, 0, 1);
  for (const [at, outer] of ideals.entries()) {
    const own = best[at];
    for (let other = at - 1; other >= 0; other -= 1) {
      const inner = ideals[other];
      const from = best[other];
      if (inner === undefined || from === undefined || own === undefined) continue;
      const ms = (outer.workMs - inner.workMs) / stage.speed + outer.borderMs + inner.borderMs;
      const isHeld = outer.heldBytes - inner.heldBytes <= stage.memoryBytes * (1 + 1e-9);
      if (ms > most || !isHeld || inner.size === outer.size || !isWithin(inner, outer)) continue;
      for (let stages = 0; stages < count; stages += 1) {
        const all = Math.max(ms, from[stages] ?? Infinity);
        if (all < (own[stages + 1] ?? Infinity)) own[stages + 1] = all;
      }
    }
  }
  return best.at(-1)?.[count];
}

const isWithin = (inner: Ideal, outer: Ideal): boolean =>
  inner.members.every((word, at) => (word & ~(outer.members[at] ?? 0)) === 0);

/** Smallest first, from the empty one to the whole. */
function idealsOf(task: PipelineTask, most: number): readonly Ideal[] | undefined {
  const { graph, stages, heldPerParameterByte } = task;
  const words = Math.ceil(graph.members.length / 32);
  const has = (members: Uint32Array, operator: number): boolean =>
    (((members[operator >>> 5] ?? 0) >>> (operator & 31)) & 1) === 1;
  let row = new Map([["", new Uint32Array(words)]]);
  const found: Ideal[] = [];
  for (let size = 0; row.size > 0; size += 1) {
    const next = new Map<string, Uint32Array<ArrayBuffer>>();
    for (const members of row.values()) {
      if (found.length === most) return undefined;
      found.push(idealOf(members, size));
      for (let operator = 0; operator < graph.members.length; operator += 1) {
        const isReady =
          !has(members, operator) &&
          (graph.before[operator] ?? []).every((before) => has(members, before));
        if (!isReady) continue;
        const larger = members.slice();
        larger[operator >>> 5] = (larger[operator >>> 5] ?? 0) | (1 << (operator & 31));
        next.set(larger.join(), larger);
      }
      if (next.size > most) return undefined;
    }
    row = next;
  }
  return found;

  function idealOf(members: Uint32Array, size: number): Ideal {
    let [workMs, heldBytes, borderBytes] = [0, 0, 0];
    for (let operator = 0; operator < graph.members.length; operator += 1) {
      if (!has(members, operator)) continue;
      workMs += graph.workMs[operator] ?? 0;
      heldBytes +=
        heldPerParameterByte * (graph.parameterBytes[operator] ?? 0) +
        (stages[0]?.inFlight ?? 1) * (graph.keptBytes[operator] ?? 0);
    }
    for (const { ends, bytes } of graph.tensors) {
      const inside = ends.filter((end) => has(members, end)).length;
      if (inside > 0 && inside < ends.length) borderBytes += bytes;
    }
    const borderMs = borderBytes * (stages[0]?.msPerByte ?? 0);
    return { members, size, workMs, heldBytes, borderMs };
  }
}
