/**
 * @file What a tuner keeps of the rewards that it hears: bounded, each step once, apart for jobs with overlap and without.
 *
 * A run's rewards come in batches, again after a lost answer, and out of order after an agent's restart: of each run only steps above the
 * highest that was heard count. Of a row the first `FIRST_SAMPLES` are kept, which are those that explored, and the last `LAST_SAMPLES`; what
 * came before the ground shifted leaves when the science says so. A step has one time for all its rows: it tells of the row that explored, when
 * exactly one did, of all when none did, and else only how many calls each has. Pure.
 */

import type { TuneAnswer } from "../../protocol/collectives-contract.ts";
import {
  isSameRow,
  NO_POLICY,
  type CollectiveReward,
  type OverlapEvidence,
  type RowEvidence,
} from "../../domain/bandwidth/collective-evidence.ts";
import { crc32 } from "../../lib/crc32.ts";
import type {
  CollectiveMemory,
  OverlapView,
  RewardReport,
} from "../../protocol/collective-messages.ts";

const FIRST_SAMPLES = 80;
const LAST_SAMPLES = 240;
const MAX_ROWS = 64;
const MAX_RUNS = 200;
const MAX_MICROS = 1e9;

export const NO_COLLECTIVE_MEMORY: CollectiveMemory = Object.freeze({
  worlds: [],
  runs: [],
  version: 0,
  heard: 0,
  repeated: 0,
  unfit: 0,
});

/** The memory with a report in it, and whether it said anything new. */
export function takeInRewards(
  memory: CollectiveMemory,
  { hasOverlap, run, rewards }: RewardReport,
): { readonly memory: CollectiveMemory; readonly isNew: boolean } {
  const before = memory.runs.find(([name]) => name === run)?.[1] ?? 0;
  const fresh = rewards.filter(({ step }) => step > before);
  const fit = fresh.filter(isFit);
  const last = fresh.reduce((most, { step }) => Math.max(most, step), before);
  const runs = memory.runs.filter(([name]) => name !== run);
  const world = worldOf(memory, hasOverlap);
  const counted: CollectiveMemory = {
    ...memory,
    heard: memory.heard + fit.length,
    repeated: memory.repeated + rewards.length - fresh.length,
    unfit: memory.unfit + fresh.length - fit.length,
    ...(last > before && { runs: [...runs, [run, last] as const].slice(-MAX_RUNS) }),
  };
  const isNew = fit.length > 0;
  return {
    isNew,
    memory: isNew
      ? withWorld(counted, {
          ...world,
          rows: telling(fit, world).reduce(withRewardOf(crc32(run)), world.rows),
        })
      : counted,
  };
}

export const worldOf = ({ worlds }: CollectiveMemory, hasOverlap: boolean): OverlapEvidence =>
  worlds.find((world) => world.hasOverlap === hasOverlap) ?? {
    hasOverlap,
    rows: [],
    policy: NO_POLICY,
  };

export function withPolicy(
  memory: CollectiveMemory,
  hasOverlap: boolean,
  { policy, stale }: TuneAnswer,
): CollectiveMemory {
  const version = Math.max(memory.version, policy.version);
  const world = worldOf(memory, hasOverlap);
  const rows = world.rows.map((row) => {
    const count = stale.find(isSameRow(row))?.samples ?? 0;
    return count === 0 ? row : { ...row, samples: row.samples.slice(count) };
  });
  return withWorld({ ...memory, version }, { hasOverlap, rows, policy });
}

export const viewOfWorld = ({ hasOverlap, policy, rows }: OverlapEvidence): OverlapView => ({
  hasOverlap,
  policy,
  rows: rows.map(({ collective, minBytes, maxBytes, calls, samples }) => ({
    collective,
    minBytes,
    maxBytes,
    calls,
    samples: samples.length,
  })),
});

/** Versions go on, so that no rank takes a policy from before for a newer one. */
export const forgotten = (memory: CollectiveMemory): CollectiveMemory => ({
  ...NO_COLLECTIVE_MEMORY,
  runs: memory.runs,
  version: memory.version,
  worlds: memory.worlds.map(({ hasOverlap, policy }) => ({ hasOverlap, rows: [], policy })),
});

const withWorld = (memory: CollectiveMemory, world: OverlapEvidence): CollectiveMemory => ({
  ...memory,
  worlds: [...memory.worlds.filter(({ hasOverlap }) => hasOverlap !== world.hasOverlap), world],
});

const isFit = ({
  micros,
  slowestMicros = micros,
  calls,
  minBytes,
  maxBytes,
}: CollectiveReward): boolean =>
  isTime(micros) && isTime(slowestMicros) && calls > 0 && minBytes <= maxBytes;

const isTime = (micros: number): boolean => micros > 0 && micros <= MAX_MICROS;

/** The rewards, those as `mixed` that say nothing of time. */
function telling(
  rewards: readonly CollectiveReward[],
  { policy }: OverlapEvidence,
): readonly CollectiveReward[] {
  const steps = new Map<number, CollectiveReward[]>();
  for (const reward of rewards) steps.set(reward.step, [...(steps.get(reward.step) ?? []), reward]);
  return [...steps.values()].flatMap((rows) => {
    if (rows.length === 1) return rows;
    const exploring = rows.filter(
      (reward) => policy.reasons.find(isSameRow(reward))?.isExploring === true,
    );
    const isKnown = rows.every(({ version }) => version === policy.version);
    const tells = (reward: CollectiveReward): boolean =>
      isKnown && exploring.length <= 1 && (exploring.length === 0 || exploring[0] === reward);
    return rows.map((reward) => (tells(reward) ? reward : { ...reward, arm: "mixed" }));
  });
}

/** A mixed step says only how many calls a step has. */
const withRewardOf =
  (run: number) =>
  (rows: readonly RowEvidence[], reward: CollectiveReward): readonly RowEvidence[] => {
    const { collective, minBytes, maxBytes, arm, calls, micros, slowestMicros, version } = reward;
    const isOf = isSameRow(reward);
    const former = rows.find(isOf);
    if (former === undefined && rows.length >= MAX_ROWS) return rows;
    const samples = former?.samples ?? [];
    const most = former?.run === run ? Math.max(former.calls, calls) : calls;
    const row: RowEvidence = {
      collective,
      minBytes,
      maxBytes,
      calls: most,
      run,
      samples:
        arm === "mixed"
          ? samples
          : keptSamples([
              ...samples,
              { arm, micros, version, run, ...(slowestMicros !== undefined && { slowestMicros }) },
            ]),
    };
    return former === undefined ? [...rows, row] : rows.map((each) => (isOf(each) ? row : each));
  };

/** Of a row's samples, in order of arrival. */
export const keptSamples = <Kept>(samples: readonly Kept[]): readonly Kept[] =>
  samples.length <= FIRST_SAMPLES + LAST_SAMPLES
    ? samples
    : [...samples.slice(0, FIRST_SAMPLES), ...samples.slice(-LAST_SAMPLES)];
