/**
 * @file The steps that runs measured, from the bandwidth models of the clusters that keep them: for plans of jobs, and for the prices of places.
 *
 * A decision does not wait for them. Where it priced places, the models of the fleet's clusters are asked afterwards, once a minute at most, and
 * later prices know the answer.
 */

import type { Client } from "@temporalio/client";
import type { KeptStep } from "../domain/model/step-record.ts";
import { bandwidthModelWorkflowId, keptStepsQuery } from "../protocol/messages.ts";
import type { Decider } from "./decider.ts";

/** The steps that runs measured in a cluster; rejects, or takes its time, where nobody keeps them. */
export type StepsOf = (
  of: { readonly fleet: string; readonly cluster: string },
  signal: AbortSignal,
) => Promise<readonly KeptStep[]>;

export const stepsOver =
  (client: Client): StepsOf =>
  ({ fleet, cluster }, signal) => {
    const model = client.workflow.getHandle(bandwidthModelWorkflowId(fleet, cluster));
    return client.withAbortSignal(signal, () => model.query(keptStepsQuery));
  };

const ASK_AGAIN_MS = 60_000;
/** Whoever keeps the steps answers at once, or there are none. */
const WITHIN_MS = 3_000;

/** Of several clusters; none of those where nothing was measured, or nobody answers in time. */
export async function stepsIn(
  stepsOf: StepsOf,
  { fleet, clusters }: { readonly fleet: string; readonly clusters: readonly string[] },
): Promise<readonly KeptStep[]> {
  const late = AbortSignal.timeout(WITHIN_MS);
  const kept = await Promise.all(
    clusters.map(async (cluster) => {
      try {
        return await stepsOf({ fleet, cluster }, late);
      } catch {
        return [];
      }
    }),
  );
  return kept.flat();
}

export interface LearnerPorts {
  readonly stepsOf: StepsOf;
  readonly decider: Pick<Decider, "priced" | "know">;
  readonly nowMs: () => number;
}

/** To be called after each decision on a fleet; nobody waits for what it starts, and none of it fails. */
export function stepsLearner({ stepsOf, decider, nowMs }: LearnerPorts): (fleet: string) => void {
  const askedAtMs = new Map<string, number>();
  return (fleet) => {
    const clusters = decider.priced(fleet);
    const lastMs = askedAtMs.get(fleet) ?? -Infinity;
    if (clusters.length === 0 || nowMs() - lastMs < ASK_AGAIN_MS) return;
    askedAtMs.set(fleet, nowMs());
    void stepsIn(stepsOf, { fleet, clusters }).then((kept) => decider.know(fleet, kept));
  };
}
