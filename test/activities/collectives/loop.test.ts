/**
 * @file The whole loop without a network: a job that uses two rows follows policies as the plugin does, its rewards go into the tuner's
 * memory, and the policy that follows is elected every ten steps.
 */

import { describe, expect, it } from "vitest";
import { tuned } from "../../../activities/collectives/tune.ts";
import type {
  CollectiveReward,
  TopologyClass,
} from "../../../domain/bandwidth/collective-evidence.ts";
import { randomFrom } from "../../../lib/random.ts";
import { parsePolicy } from "../../../tuning/policy-file.ts";
import { armAt, type PolicyRow } from "../../../tuning/policy.ts";
import {
  NO_COLLECTIVE_MEMORY,
  takeInRewards,
  withPolicy,
  worldOf,
} from "../../../workflows/learners/collective-memory.ts";
import type { CollectiveMemory } from "../../../protocol/collective-messages.ts";

const TOPOLOGY: TopologyClass = {
  cluster: "eu-1",
  name: "2x4-A100-nvlink",
  nodes: 2,
  ranks: 8,
  hasNvlink: true,
  hasNvlinkSharp: false,
};
const MiB = 2 ** 20;

interface Used {
  readonly collective: string;
  readonly minBytes: number;
  readonly calls: number;
  /** What all its calls take in a step, and its best arm. */
  readonly millisOf: (arm: string) => number;
  readonly best: string;
}

function tune(memory: CollectiveMemory): CollectiveMemory {
  const evidence = worldOf(memory, true);
  return withPolicy(
    memory,
    true,
    tuned({ topology: TOPOLOGY, evidence, version: memory.version + 1 }),
  );
}

interface Job {
  readonly used: readonly Used[];
  readonly steps: number;
  /** Of a step, in ms. */
  readonly compute: number;
  /** NCCL tells what the collectives of a row take. */
  readonly isTimed?: boolean;
}

/** The policy after so many steps, and what the steps took. */
function train({ used, steps, compute, isTimed = false }: Job, seed: number) {
  const random = randomFrom(seed, "steps");
  let memory = tune(NO_COLLECTIVE_MEMORY);
  let { rows, version } = inForce(memory);
  const counts: number[] = used.map(() => 0);
  let untold: CollectiveReward[] = [];
  const millis: number[] = [];
  for (let step = 1; step <= steps; step += 1) {
    let total = compute;
    const rewards = used.map((row, at): Omit<CollectiveReward, "micros"> => {
      const followed = rows.find(
        ({ collective, minBytes }) => collective === row.collective && minBytes === row.minBytes,
      );
      if (followed === undefined) throw new Error("the row is missing");
      const first = counts[at] ?? 0;
      const arms = Array.from({ length: row.calls }, (_, call) => armAt(followed, first + call));
      counts[at] = first + row.calls;
      const own = arms.reduce((sum, each) => sum + row.millisOf(each) / row.calls, 0);
      total += own;
      const slowestMicros = Math.round(1000 * own * (1 + 0.05 * random.unit()));
      const { collective, minBytes, maxBytes } = followed;
      const arm = new Set(arms).size === 1 ? (arms[0] ?? "mixed") : "mixed";
      return {
        ...{ step, version, collective, minBytes, maxBytes, arm, calls: row.calls },
        ...(isTimed && { slowestMicros }),
      };
    });
    const taken = total * (1 + 0.03 * (random.unit() - 0.5));
    millis.push(taken);
    untold.push(...rewards.map((reward) => ({ ...reward, micros: Math.round(1000 * taken) })));
    if (step % 5 === 0) {
      const heard = takeInRewards(memory, { hasOverlap: true, run: "job", rewards: untold });
      memory = tune(heard.memory);
      untold = [];
    }
    if (step % 10 === 0 && inForce(memory).version > version) {
      ({ rows, version } = inForce(memory));
      counts.fill(0);
    }
  }
  return { rows, millis, version };
}

function inForce(memory: CollectiveMemory): { rows: readonly PolicyRow[]; version: number } {
  const parsed = parsePolicy(worldOf(memory, true).policy.text, "test");
  if (parsed.kind === "refused") throw new Error("no policy");
  return { rows: parsed.policy.sections[0]?.rows ?? [], version: parsed.policy.version };
}

const arm =
  (best: string, fast: number, slow: number) =>
  (name: string): number =>
    name === best ? fast : slow;

describe("a job that follows its policies", () => {
  it.each([1, 2, 3])("finds the best arm of each row that it uses, seed %i", (seed) => {
    const used: readonly Used[] = [
      {
        collective: "reducescatter",
        minBytes: MiB,
        calls: 6,
        millisOf: arm("ring/ll128", 30, 60),
        best: "ring/ll128",
      },
      {
        collective: "allreduce",
        minBytes: 16 * MiB,
        calls: 4,
        millisOf: arm("tree/simple", 80, 140),
        best: "tree/simple",
      },
    ];
    const { rows, millis, version } = train({ used, steps: 400, compute: 100 }, seed);
    for (const { collective, minBytes, best } of used) {
      const row = rows.find((each) => each.collective === collective && each.minBytes === minBytes);
      expect(row?.arm).toBe(best);
    }
    // Before: 300 ms a step. The last steps are those of the best arms, and the search has paid for itself long before.
    expect(millis.slice(-20).every((each) => each < 220)).toBe(true);
    expect(millis.reduce((sum, each) => sum + each, 0)).toBeLessThan(400 * 300 * 0.85);
    expect(version).toBeLessThan(25);
  });

  it.each([1, 2, 3])(
    "finds the gain of a step that is to a seventh communication where its collectives are timed, seed %i",
    (seed) => {
      const used = [
        {
          ...{ collective: "allreduce", minBytes: 16 * MiB, calls: 4, best: "tree/simple" },
          millisOf: arm("tree/simple", 142, 150),
        },
      ];
      const { rows } = train({ used, steps: 400, compute: 850, isTimed: true }, seed);
      const row = rows.find(
        (each) => each.collective === "allreduce" && each.minBytes === 16 * MiB,
      );
      expect(row).toMatchObject({ arm: "tree/simple" });
      expect(row?.explore).toBeUndefined();
    },
  );
});
