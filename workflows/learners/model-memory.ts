/**
 * @file What a bandwidth model remembers of what was measured: which words are new, which are kept, which are outliers, what drifts.
 *
 * - New: words are told apart by (job, run, attempt) and window. Of the same window the later word counts; one of an earlier window than
 *   was heard is a late copy. Runs are remembered up to `MAX_HEARD`, the oldest goes first.
 * - Kept: at most `MAX_SAMPLES`, of one set of GPUs at most `MAX_PER_SET`. A set that is full gives up its oldest; a full memory the oldest
 *   of the set that has most, ties to the oldest of all: a long-running job cannot push the others out.
 * - Residuals are ln(measured ÷ predicted) by the version that serves. An outlier is off by more than `OUTLIER_LOG` and confirmed by
 *   nobody: no sample of another run that shares a host with it, among the newest `NEIGHBOURS` of that host, is off the same way
 *   by half as much. It is named, and not learned from until one confirms it.
 * - Drift: the last `DRIFT_WINDOW` samples of a host, `DRIFT_LEAST` at least from two runs at least, have a median residual beyond
 *   `DRIFT_LOG`. Of several hosts the one is named whose samples are off most often, then most, then with the lowest id; if more than half
 *   of the others drift the same way in what they did without it, it is the cluster. What was measured there before the test's
 *   samples is stale from then on.
 * - Outliers and drift are of the messages that most samples are of, the usual ones when none has more: of others the version that serves may
 *   know nothing yet, so that its error there says nothing of the network.
 *
 * Pure. Cost: O(samples) a word, O(samples · hosts) a test.
 */

import { median } from "../../lib/median.ts";
import { COLLECTIVES, messagesText } from "../../domain/bandwidth/message-profile.ts";
import { byCodeUnit, type HostId } from "../../domain/values/ids.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type {
  DriftNote,
  KeptSample,
  MeasuredNote,
  ModelMemory,
  OutlierNote,
  TrainingNote,
} from "../../protocol/model-messages.ts";
import { isFields } from "../../lib/fields.ts";
import { readSentNote, withSent } from "./sent-memory.ts";
import { isCount, readStepNote, withStep } from "./step-memory.ts";

export const MAX_SAMPLES = 512;
export const MAX_PER_SET = 4;
const MAX_HEARD = 512;
/** A factor of 1.65. */
const OUTLIER_LOG = 0.5;
const NEIGHBOURS = 8;
const DRIFT_WINDOW = 8;
const DRIFT_LEAST = 4;
/** A fifth. */
const DRIFT_LOG = Math.log(1.2);
/** A first version is not tried with less. */
const FIRST_SAMPLES = 24;
/** Measurements since the last training that make another one worth it: none serves, something drifts, all is well. */
const FRESH_FIRST = 8;
const FRESH_DRIFTING = 6;
const FRESH_USUAL = 25;
const TRAINING_GAP_MS = 60_000;
/** What NVLink may carry one day, and more: nothing measures above. */
const MAX_GBS = 1e5;
const MAX_TEXT = 1_000;
const MOST_BYTES = 2 ** 40;

export const NO_MEMORY: ModelMemory = Object.freeze({
  samples: [],
  heard: [],
  trainings: 0,
  fresh: 0,
  repeated: 0,
  unfit: 0,
  isHeld: false,
});

/** Takes in what a signal carried, junk included. */
export function takeIn(memory: ModelMemory, words: unknown, cluster: string): ModelMemory {
  let next = memory;
  for (const word of Array.isArray(words) ? words : [words]) {
    const step = readStepNote(word);
    const sent = readSentNote(word);
    if (step !== undefined) next = { ...next, steps: withStep(next.steps ?? [], step) };
    else if (sent !== undefined) next = { ...next, sent: withSent(next.sent ?? [], sent) };
    else if (isMeasured(word, cluster)) next = takeWord(next, word);
    else next = { ...next, unfit: next.unfit + 1 };
  }
  return next;
}

function takeWord(memory: ModelMemory, word: MeasuredNote): ModelMemory {
  const { jobId, window, gbs, atMs, messages } = word;
  const gpus = word.gpus
    .map(({ host, mask }) => ({ host, mask }))
    .sort((a, b) => byCodeUnit(a.host, b.host));
  const run = `${jobId} ${word.runId} ${word.attempt}`;
  const former = memory.heard.find(([name]) => name === run);
  const isOld =
    former !== undefined && (window < former[1] || (window === former[1] && atMs <= former[2]));
  if (isOld) return { ...memory, repeated: memory.repeated + 1 };
  const isReplaced = former?.[1] === window;
  const sample: KeptSample = {
    ...{ run, window, jobId, gpus, gbs, atMs },
    ...(messages !== undefined && {
      messages: { collective: messages.collective, bytes: messages.bytes },
    }),
  };
  const others = memory.samples.filter(
    (kept) => !(isReplaced && kept.run === run && kept.window === window),
  );
  return {
    ...memory,
    samples: bounded([...others, sample]),
    heard: [...memory.heard.filter(([name]) => name !== run), [run, window, atMs] as const].slice(
      -MAX_HEARD,
    ),
    fresh: memory.fresh + (isReplaced ? 0 : 1),
  };
}

function bounded(samples: readonly KeptSample[]): readonly KeptSample[] {
  const last = samples.at(-1);
  if (last === undefined) return samples;
  const own = samples.filter((sample) => setOf(sample) === setOf(last));
  if (own.length > MAX_PER_SET) return samples.filter((sample) => sample !== own[0]);
  if (samples.length <= MAX_SAMPLES) return samples;
  const counts = new Map<string, number>();
  for (const sample of samples) counts.set(setOf(sample), (counts.get(setOf(sample)) ?? 0) + 1);
  const most = Math.max(...counts.values());
  const gone = samples.find((sample) => counts.get(setOf(sample)) === most);
  return samples.filter((sample) => sample !== gone);
}

const setOf = ({ gpus, messages }: Pick<KeptSample, "gpus" | "messages">): string =>
  [
    ...gpus.map(({ host, mask }) => `${host}:${mask}`),
    ...(messages === undefined ? [] : [messagesText(messages)]),
  ].join(" ");

/** Those that the version that serves has not been asked about. */
export const notEvaluated = ({ samples }: ModelMemory): readonly KeptSample[] =>
  samples.filter(({ predictedGbs }) => predictedGbs === undefined);

/** Notes predictions; a sample that could not be judged is forgotten, because the cluster's hosts have changed. */
export function noteEvaluated(
  memory: ModelMemory,
  asked: readonly KeptSample[],
  predictedGbs: readonly (number | null)[],
): ModelMemory {
  const answers = new Map(asked.map((sample, at) => [keyOf(sample), predictedGbs[at] ?? null]));
  const samples = memory.samples.flatMap((sample) => {
    const answer = answers.get(keyOf(sample));
    if (answer === undefined) return [sample];
    return answer === null ? [] : [{ ...sample, predictedGbs: answer }];
  });
  return { ...memory, samples };
}

/** Another version serves: what the former one said does not count any more. */
export function withServing(
  memory: ModelMemory,
  serving: NonNullable<ModelMemory["serving"]>,
): ModelMemory {
  if (memory.serving?.generation === serving.generation) return memory;
  const { drift: _over, ...rest } = memory;
  const samples = memory.samples.map(({ predictedGbs: _former, ...sample }) => sample);
  return { ...rest, serving, samples };
}

const keyOf = ({ run, window, atMs }: KeptSample): string => `${run} ${window} ${atMs}`;

const residualOf = ({ gbs, predictedGbs }: KeptSample): number | undefined =>
  predictedGbs === undefined || !(predictedGbs > 0) ? undefined : Math.log(gbs / predictedGbs);

/** Samples by the hosts that they touch, in order of arrival. */
function byHost(samples: readonly KeptSample[]): ReadonlyMap<HostId, readonly KeptSample[]> {
  const found = new Map<HostId, KeptSample[]>();
  for (const sample of samples)
    for (const { host } of sample.gpus) {
      const former = found.get(host);
      if (former === undefined) found.set(host, [sample]);
      else former.push(sample);
    }
  return found;
}

export function outliersOf({ samples }: ModelMemory): readonly OutlierNote[] {
  return outlyingSamples(samples).map(({ jobId, gpus, gbs, predictedGbs = NaN, atMs }) => ({
    jobId,
    gpus,
    gbs,
    predictedGbs,
    atMs,
  }));
}

/** Those whose residuals are compared: of one kind of messages. */
function compared(samples: readonly KeptSample[]): readonly KeptSample[] {
  const kindOf = ({ messages }: KeptSample): string =>
    messages === undefined ? "" : messagesText(messages);
  const counts = new Map<string, number>([["", 0]]);
  for (const sample of samples) counts.set(kindOf(sample), (counts.get(kindOf(sample)) ?? 0) + 1);
  const [most] = [...counts].reduce((best, kind) => (kind[1] > best[1] ? kind : best));
  return samples.filter((sample) => kindOf(sample) === most);
}

function outlyingSamples(all: readonly KeptSample[]): readonly KeptSample[] {
  const samples = compared(all);
  const hosts = byHost(samples);
  return samples.filter((sample) => {
    const own = residualOf(sample);
    if (own === undefined || Math.abs(own) <= OUTLIER_LOG) return false;
    return !sample.gpus.some(({ host }) =>
      (hosts.get(host) ?? [])
        .filter((other) => other.run !== sample.run && residualOf(other) !== undefined)
        .slice(-NEIGHBOURS)
        .some((other) => (residualOf(other) ?? 0) * Math.sign(own) >= Math.abs(own) / 2),
    );
  });
}

/** What may be learned from: all but outliers. */
export function learnable({ samples }: ModelMemory): readonly KeptSample[] {
  const outlying = new Set(outlyingSamples(samples));
  return samples.filter((sample) => !outlying.has(sample));
}

/** The drift that the newest samples show, with what is stale by it; without one, a former note of it is gone. */
export function noteDrift(memory: ModelMemory, nowMs: number): ModelMemory {
  const { drift: former, ...calm } = memory;
  const outlying = new Set(outlyingSamples(memory.samples));
  const sameMessages = compared(memory.samples);
  const evaluated = sameMessages.filter(
    (sample) =>
      residualOf(sample) !== undefined && sample.isStale !== true && !outlying.has(sample),
  );
  const [worst] = driftingHosts(evaluated).drifting;
  if (worst === undefined) return former === undefined ? memory : calm;
  // Whoever ran together with that host is off with it: the others are tested by what they did without.
  const without = evaluated.filter(({ gpus }) => !gpus.some(({ host }) => host === worst.host));
  const { tested, drifting } = driftingHosts(without);
  const alike = drifting.filter(({ off }) => off * worst.off > 0);
  const isCluster = tested.length > 1 && 2 * alike.length > tested.length;
  const window = isCluster ? evaluated.slice(-2 * DRIFT_WINDOW) : worst.window;
  const known = new Set(window.map(keyOf));
  const firstAtMs = Math.min(...window.map(({ atMs }) => atMs));
  const isCompared = new Set(sameMessages);
  const touches = (sample: KeptSample): boolean =>
    isCompared.has(sample) && (isCluster || sample.gpus.some(({ host }) => host === worst.host));
  const samples = memory.samples.map((sample) =>
    touches(sample) && !known.has(keyOf(sample)) && sample.atMs < firstAtMs
      ? { ...sample, isStale: true as const }
      : sample,
  );
  const isKnown = former !== undefined && former.host === (isCluster ? undefined : worst.host);
  const drift: DriftNote = {
    ...(!isCluster && { host: worst.host }),
    ratio: Math.exp(medianResidual(window)),
    samples: window.length,
    atMs: isKnown ? former.atMs : nowMs,
  };
  return { ...memory, samples, drift };
}

interface TestedHost {
  readonly host: HostId;
  readonly window: readonly KeptSample[];
  /** Median residual. */
  readonly off: number;
  /** Share of the window that is off like the median. */
  readonly share: number;
}

/** The hosts with enough samples, and those of them that drift, the worst first. */
function driftingHosts(evaluated: readonly KeptSample[]): {
  readonly tested: readonly TestedHost[];
  readonly drifting: readonly TestedHost[];
} {
  const tested = [...byHost(evaluated)].flatMap(([host, samples]): TestedHost[] => {
    const window = samples.slice(-DRIFT_WINDOW);
    if (window.length < DRIFT_LEAST || new Set(window.map(({ run }) => run)).size < 2) return [];
    const off = medianResidual(window);
    const alike = window.filter((sample) => (residualOf(sample) ?? 0) * Math.sign(off) > DRIFT_LOG);
    return [{ host, window, off, share: alike.length / window.length }];
  });
  const drifting = tested
    .filter(({ off }) => Math.abs(off) > DRIFT_LOG)
    .sort(
      (a, b) =>
        b.share - a.share || Math.abs(b.off) - Math.abs(a.off) || byCodeUnit(a.host, b.host),
    );
  return { tested, drifting };
}

const medianResidual = (samples: readonly KeptSample[]): number =>
  samples.length === 0 ? 0 : median(samples.map((sample) => residualOf(sample) ?? 0));

/** Why to train now; undefined while there is no reason. */
export function trainingCause(
  memory: ModelMemory,
  nowMs: number,
): TrainingNote["cause"] | undefined {
  const { serving, fresh, isHeld, drift } = memory;
  const [cause, least] =
    serving === undefined
      ? (["first", FRESH_FIRST] as const)
      : drift !== undefined
        ? (["drift", FRESH_DRIFTING] as const)
        : (["samples", FRESH_USUAL] as const);
  if (isHeld || fresh < least || nowMs < nextTrainingMs(memory)) return undefined;
  return learnable(memory).length < FIRST_SAMPLES ? undefined : cause;
}

/** Not before, whatever comes. */
export const nextTrainingMs = ({ lastTraining }: ModelMemory): number =>
  lastTraining === undefined ? 0 : lastTraining.atMs + TRAINING_GAP_MS;

/** Over several hosts of this cluster: what is inside one host is read from its table, but of the usual messages only. */
function isMeasured(value: unknown, cluster: string): value is MeasuredNote {
  if (!isFields(value)) return false;
  const { jobId, runId, attempt, window, gbs, atMs, gpus, messages } = value;
  const hosts = new Set<unknown>();
  return (
    isText(jobId) &&
    isText(runId) &&
    isCount(attempt) &&
    isCount(window) &&
    typeof gbs === "number" &&
    gbs > 0 &&
    gbs <= MAX_GBS &&
    isCount(atMs) &&
    Array.isArray(gpus) &&
    (messages === undefined || isMessages(messages)) &&
    gpus.length > (messages === undefined ? 1 : 0) &&
    gpus.length <= MAX_TEXT &&
    gpus.every((part: unknown) => {
      if (!isFields(part) || !isText(part["host"])) return false;
      const { host, mask } = part;
      const isNew = !hosts.has(host);
      hosts.add(host);
      return (
        isNew &&
        host.startsWith(`${cluster}/`) &&
        host.length > cluster.length + 1 &&
        isCount(mask) &&
        popCount(mask) > 0 &&
        mask < 2 ** 30
      );
    })
  );
}

const isMessages = (value: unknown): boolean =>
  isFields(value) &&
  COLLECTIVES.some((each) => each === value["collective"]) &&
  isCount(value["bytes"]) &&
  value["bytes"] > 0 &&
  value["bytes"] <= MOST_BYTES;
const isText = (value: unknown): value is string =>
  typeof value === "string" && /^\S+$/.test(value) && value.length <= MAX_TEXT;
