/**
 * @file PTS of BandPilot: from all free GPUs down to the gang, one GPU less a step, always the one whose loss leaves the most bandwidth.
 *
 * Algorithm 2, §4.3.3. Up to 8 GPUs that one host can hold start from the free GPUs of the host with the best set of that size. What the paper
 * leaves open: of steps with equal predictions the one is taken that search.ts prefers among candidates. Not for more than `MOST_GPUS` free
 * GPUs, because the predictions grow with their square: then there is no answer. Cost: (free² − gpus²) / 2 predictions.
 */

import { popCount } from "../../../domain/lease/lease.ts";
import { allOptions } from "../../../scheduling/pick/host-options.ts";
import type { Candidate } from "../../../scheduling/pick/bandwidth-port.ts";
import {
  openContest,
  type PickQuestion,
  type PickSearch,
  type Picked,
} from "../../../scheduling/pick/search.ts";

const MOST_GPUS = 64;
/** Line 4 of the algorithm. */
const ONE_HOST_GPUS = 8;

export const pts: PickSearch = (question) => {
  const { gpus, isSameHost = false } = question;
  const start = startOf(question);
  let size = sizeOf(start);
  if (size < gpus || size > MOST_GPUS || (isSameHost && start.length > 1)) return undefined;
  const work = { candidates: 0, batches: 0, work: 0 };
  // Steps are no picks yet: they are compared by bandwidth alone.
  const { score: _ofPicks, ...step } = question;
  let found: Picked | undefined = bestOf(step, [start]);
  for (; size > gpus && found !== undefined; size -= 1) {
    found = bestOf(step, withoutOne(found.pick));
    work.candidates += found?.stats.candidates ?? 0;
    work.batches += found?.stats.batches ?? 0;
    work.work += found?.stats.work ?? 0;
  }
  if (found === undefined) return undefined;
  const { pick, predictedGbs, score: countedGbs } = found;
  const score = question.score?.(pick, countedGbs) ?? countedGbs;
  return { pick, predictedGbs, score, mostGbs: predictedGbs, stats: { ...work, isExact: false } };
};

function bestOf(question: PickQuestion, candidates: readonly Candidate[]): Picked | undefined {
  const contest = openContest(question);
  contest.enter(candidates);
  return contest.result(false);
}

function startOf(question: PickQuestion): Candidate {
  const { predictor, freeMasks, gpus, isSameHost = false } = question;
  const hosts = allOptions(predictor.domain, freeMasks);
  const able = hosts.filter(({ free }) => free >= gpus);
  if ((gpus <= ONE_HOST_GPUS || isSameHost) && able.length > 0) {
    const best = bestOf(
      question,
      able.map(({ host, masks }) => [{ host, mask: masks[gpus] ?? 0 }]),
    )?.pick[0];
    return hosts.flatMap(({ host, freeMask }) =>
      host === best?.host ? [{ host, mask: freeMask }] : [],
    );
  }
  return hosts.map(({ host, freeMask }) => ({ host, mask: freeMask }));
}

const sizeOf = (candidate: Candidate): number =>
  candidate.reduce((sum, { mask }) => sum + popCount(mask), 0);

function withoutOne(candidate: Candidate): readonly Candidate[] {
  const found: Candidate[] = [];
  for (const [at, { host, mask }] of candidate.entries()) {
    for (let rest = mask; rest !== 0; rest &= rest - 1) {
      const less = mask & ~(rest & -rest);
      const before = candidate.slice(0, at);
      const after = candidate.slice(at + 1);
      found.push(less === 0 ? [...before, ...after] : [...before, { host, mask: less }, ...after]);
    }
  }
  return found;
}
