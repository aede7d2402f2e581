/**
 * @file What the bandwidth models of the clusters keep of runs: the steps that they measured, for plans of jobs and for the prices of places, and
 * what they sent, for picks of GPUs; and what hosts keep of the weights of served models.
 *
 * A decision does not wait for it. Where it priced places, asked models for bandwidths, or placed what may be a served model, the clusters are asked
 * afterwards, every half a minute at most (for weights every 5 s), and later decisions know the answer. A decision that placed such a model is made again
 * when hosts tell something new within a moment, because a service may come up from none once in a day, and on workers that have just begun.
 */

import type { Client } from "@temporalio/client";
import type { QueryDefinition } from "@temporalio/common";
import type { WeightsKeeper } from "../domain/lease/kept-weights.ts";
import type { KeptMessages } from "../domain/bandwidth/sent-messages.ts";
import type { KeptStep } from "../domain/model/step-record.ts";
import {
  bandwidthModelWorkflowId,
  keptMessagesQuery,
  keptStepsQuery,
} from "../protocol/messages.ts";
import type { Decider } from "./decider.ts";

/** What is kept of runs in a cluster; rejects, or takes its time, where nobody keeps any. */
export type KeptIn<Kept> = (
  of: { readonly fleet: string; readonly cluster: string },
  signal: AbortSignal,
) => Promise<readonly Kept[]>;

export type StepsOf = KeptIn<KeptStep>;

const over =
  <Kept>(query: QueryDefinition<readonly Kept[]>) =>
  (client: Client): KeptIn<Kept> =>
  ({ fleet, cluster }, signal) => {
    const model = client.workflow.getHandle(bandwidthModelWorkflowId(fleet, cluster));
    return client.withAbortSignal(signal, () => model.query(query));
  };

export const stepsOver = over(keptStepsQuery);
export const messagesOver = over(keptMessagesQuery);

const ASK_AGAIN_MS = 30_000;
/** Whoever keeps them answers at once, or there are none. */
const WITHIN_MS = 3_000;

/** Of several clusters; none of those where nothing is kept, or nobody answers in time. */
export async function keptIn<Kept>(
  keptOf: KeptIn<Kept>,
  { fleet, clusters }: { readonly fleet: string; readonly clusters: readonly string[] },
): Promise<readonly Kept[]> {
  const late = AbortSignal.timeout(WITHIN_MS);
  const kept = await Promise.all(
    clusters.map(async (cluster) => {
      try {
        return await keptOf({ fleet, cluster }, late);
      } catch {
        return [];
      }
    }),
  );
  return kept.flat();
}

export interface LearnerPorts {
  readonly stepsOf: StepsOf;
  readonly messagesOf: KeptIn<KeptMessages>;
  readonly keepersOf: KeptIn<WeightsKeeper>;
  readonly decider: Pick<Decider, "wanted" | "know">;
  readonly nowMs: () => number;
}

/** The same; one that does not answer says what it said last. */
function remembered<Kept>(keptOf: KeptIn<Kept>): KeptIn<Kept> {
  const last = new Map<string, readonly Kept[]>();
  return async (of, signal) => {
    const key = `${of.fleet} ${of.cluster}`;
    try {
      const kept = await keptOf(of, signal);
      last.set(key, kept);
      return kept;
    } catch (error) {
      const former = last.get(key);
      if (former === undefined) throw error;
      return former;
    }
  };
}

/** Hosts are asked so often at most, and a decision waits so long for them to tell. */
const KEEPERS_AGAIN_MS = 5_000;
const KEEPERS_WITHIN_MS = 250;

/**
 * To be called after each decision on a fleet; none of what it starts fails. Resolves with whether the decision is worth making again, by what hosts have
 * told meanwhile; nobody waits for the rest.
 */
export function runsLearner({
  stepsOf,
  messagesOf,
  keepersOf,
  decider,
  nowMs,
}: LearnerPorts): (fleet: string) => Promise<boolean> | undefined {
  const askedAtMs = new Map<string, number>();
  const [steps, messages, keepers] = [
    remembered(stepsOf),
    remembered(messagesOf),
    remembered(keepersOf),
  ];
  const lastKept = new Map<string, string>();
  const isDue = (what: string, againMs = ASK_AGAIN_MS): boolean => {
    if (nowMs() - (askedAtMs.get(what) ?? -Infinity) < againMs) return false;
    askedAtMs.set(what, nowMs());
    return true;
  };
  return (fleet) => {
    const wanted = decider.wanted(fleet);
    if (wanted === undefined) return undefined;
    const of = { fleet, clusters: wanted.clusters };
    if (wanted.areSteps && isDue(`steps ${fleet}`))
      void keptIn(steps, of).then((kept) => decider.know({ fleet, steps: kept }));
    if (wanted.areMessages && isDue(`messages ${fleet}`))
      void keptIn(messages, of).then((kept) => decider.know({ fleet, messages: kept }));
    if (!wanted.areKeepers || !isDue(`keepers ${fleet}`, KEEPERS_AGAIN_MS)) return undefined;
    return within(
      KEEPERS_WITHIN_MS,
      keptIn(keepers, of).then((kept) => {
        decider.know({ fleet, keepers: kept });
        const [former = "[]", told] = [lastKept.get(fleet), JSON.stringify(kept)];
        lastKept.set(fleet, told);
        return told !== former;
      }),
    );
  };
}

/** False when it takes longer. */
async function within(mostMs: number, told: Promise<boolean>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(false), mostMs);
  });
  return await Promise.race([told, late]).finally(() => clearTimeout(timer));
}
