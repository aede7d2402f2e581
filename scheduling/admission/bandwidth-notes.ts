/** @file The notes of what a model predicts for GPUs that were not searched for, and the words for why the best found was not taken. */

import type { BandwidthPredictor } from "../../domain/bandwidth/bandwidth-port.ts";
import { roundMessages } from "../../domain/bandwidth/message-profile.ts";
import { versionFor } from "../../domain/bandwidth/sent-messages.ts";
import { trainedName } from "../../domain/job/training-model.ts";
import type { BandwidthNote } from "../../domain/lease/bandwidth-note.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import type { BandwidthPorts, PlaceDemand } from "../placement/place-policy.ts";
import { candidateOf, indicesOf } from "./domain-hosts.ts";

/** Why the GPUs are not those of `bestGbs`. */
export const NOT_TAKEN = Object.freeze({
  watts: "the best found would draw more than may be drawn",
  neighbours: "the best found would cost running gangs or the next one more than it brings",
  unlike: "nothing like the best found was measured",
  elsewhere: "the best found lies in another cluster or type, and its lead is within the error",
  reserved: "the best found takes GPUs that are reserved for other jobs",
  quota: "the best found takes GPUs beyond the tenant's quota",
});

type Sending = Pick<PlaceDemand, "messages" | "sender">;

/** What a request says of its messages, or by what others are like it. */
export function sendingOf({
  constraints: { messages, training },
  ...request
}: Pick<PendingRequest, "constraints" | "tenant" | "class" | "name" | "gang">): Sending {
  if (messages !== undefined) return { messages };
  const { tenant, class: jobClass, name, gang } = request;
  const model = training === undefined ? undefined : trainedName(training);
  const sender = { tenant, class: jobClass, name, gpus: gang.gpus };
  return { sender: { ...sender, ...(model !== undefined && { model }) } };
}

/**
 * The same ports for the messages that a gang sends, as it says or as others like it did, rounded: each kind of messages costs a view of the model of
 * its own.
 */
export function bandwidthFor(ports: BandwidthPorts, { messages, sender }: Sending): BandwidthPorts {
  const learned =
    messages === undefined && sender !== undefined ? ports.messagesOf?.(sender) : undefined;
  const sent = messages ?? learned;
  if (sent === undefined) return ports;
  const rounded = roundMessages(sent);
  return {
    ...ports,
    predictorOf: (cluster) => {
      const predictor = ports.predictorOf(cluster);
      const view = predictor?.at?.(rounded);
      if (view === undefined) return predictor;
      return learned === undefined ? view : named(view, versionFor(view.version, learned));
    },
  };
}

/** Views with a name of their own: searches remember by identity what they have asked. */
const namedViews = new WeakMap<BandwidthPredictor, BandwidthPredictor>();

/** The same view under another version; of each one the last. */
function named(view: BandwidthPredictor, version: string): BandwidthPredictor {
  const former = namedViews.get(view);
  if (former?.version === version) return former;
  const made = { ...view, version };
  namedViews.set(view, made);
  return made;
}

/** The predicted bandwidth of GPUs that were reserved before. Undefined without a predictor. */
export function noteOfGiven(
  gpus: readonly HostGpus[],
  bandwidth: BandwidthPorts | undefined,
): BandwidthNote | undefined {
  const clusters = new Set(gpus.map(({ host }) => clusterOf(host)));
  const [cluster] = clusters;
  if (bandwidth === undefined || cluster === undefined || clusters.size > 1) return undefined;
  let predictor: BandwidthPredictor | undefined;
  try {
    predictor = bandwidth.predictorOf(cluster);
    const pick = predictor && candidateOf(gpus, indicesOf(predictor));
    if (predictor === undefined || pick === undefined) return undefined;
    const [predictedGbs] = predictor.predict([pick]);
    if (predictedGbs === undefined || !Number.isFinite(predictedGbs)) return undefined;
    const model = pick.length === 1 ? "table" : predictor.version;
    return { predictedGbs, compactGbs: predictedGbs, model, method: "compact" };
  } catch (error) {
    return fallbackNote(error, predictor);
  }
}

export function fallbackNote(
  error: unknown,
  predictor: BandwidthPredictor | undefined,
): BandwidthNote {
  const why = error instanceof Error ? error.message : String(error);
  return {
    method: "compact",
    ...(predictor !== undefined && { model: predictor.version }),
    fallback: why.slice(0, MOST_CHARACTERS),
  };
}

/** A note travels with the grant. */
const MOST_CHARACTERS = 200;
