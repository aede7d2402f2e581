/**
 * @file What the bandwidth models of the clusters keep of runs: the steps that they measured, for plans of jobs and for the prices of places, and
 * what they sent, for picks of GPUs.
 *
 * A decision does not wait for it. Where it priced places, or asked models for bandwidths, the models of the fleet's clusters are asked afterwards,
 * every half a minute at most, and later decisions know the answer.
 */

import type { Client } from "@temporalio/client";
import type { QueryDefinition } from "@temporalio/common";
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

/** To be called after each decision on a fleet; nobody waits for what it starts, and none of it fails. */
export function runsLearner({
  stepsOf,
  messagesOf,
  decider,
  nowMs,
}: LearnerPorts): (fleet: string) => void {
  const askedAtMs = new Map<string, number>();
  const [steps, messages] = [remembered(stepsOf), remembered(messagesOf)];
  const isDue = (what: string): boolean => {
    if (nowMs() - (askedAtMs.get(what) ?? -Infinity) < ASK_AGAIN_MS) return false;
    askedAtMs.set(what, nowMs());
    return true;
  };
  return (fleet) => {
    const wanted = decider.wanted(fleet);
    if (wanted === undefined) return;
    const of = { fleet, clusters: wanted.clusters };
    if (wanted.areSteps && isDue(`steps ${fleet}`))
      void keptIn(steps, of).then((kept) => decider.know({ fleet, steps: kept }));
    if (wanted.areMessages && isDue(`messages ${fleet}`))
      void keptIn(messages, of).then((kept) => decider.know({ fleet, messages: kept }));
  };
}
