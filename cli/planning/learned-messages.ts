/** @file What jobs of a running fleet were seen to send, and what a job is taken to send. Nobody has to keep any of it. */

import { openBandwidthModel } from "../../client/bandwidth-model.ts";
import type { MessageProfile } from "../../domain/bandwidth/message-profile.ts";
import {
  learnedIn,
  openMessages,
  type LearnedMessages,
  type MessagesOf,
} from "../../domain/bandwidth/sent-messages.ts";
import { scheduledPart } from "../../domain/lease/gang-request.ts";
import { MESSAGE_SIZE } from "../../domain/values/dimensions.ts";
import { quantityText } from "../../domain/values/quantity.ts";
import type { JobView } from "../../protocol/job.ts";
import { sendingOf } from "../../scheduling/admission/bandwidth-notes.ts";
import type { Session } from "../command/session.ts";
import { counted } from "../terminal/duration.ts";

/** Learned from the jobs of these clusters. */
export async function learnedMessages(
  { temporal, fleet }: Pick<Session, "temporal" | "fleet">,
  clusters: readonly string[],
): Promise<MessagesOf> {
  const kept = await Promise.all(
    clusters.map((cluster) =>
      // A model that does not answer has learned nothing, as for decisions.
      openBandwidthModel(temporal, { fleet, cluster })
        .sent()
        .catch(() => []),
    ),
  );
  return openMessages(kept.flat());
}

export type TakenMessages = ({ readonly from: "stated" } & MessageProfile) | LearnedFrom;
type LearnedFrom = { readonly from: "learned" } & LearnedMessages;

/** What the job says that it sends, or what others like it did; undefined where its GPUs are compared for the usual messages. */
export function takenMessages(
  { spec, attempts }: Pick<JobView, "spec" | "attempts">,
  messagesOf?: MessagesOf,
): TakenMessages | undefined {
  if (spec === undefined || spec.gang.gpus < 2) return undefined;
  const { messages, sender } = sendingOf(scheduledPart(spec));
  if (messages !== undefined) return { from: "stated", ...messages };
  const learned =
    messagesOf === undefined
      ? learnedIn(attempts.at(-1)?.bandwidth?.model)
      : sender && messagesOf(sender);
  return learned && { from: "learned", ...learned };
}

/** `profile learned from 5 jobs: all_reduce 256 MiB (92 % of what they sent)`. */
export function takenText(taken: TakenMessages | undefined): string | undefined {
  if (taken?.from !== "learned") return undefined;
  const { jobs, share, collective, bytes } = taken;
  const from = `profile learned from ${counted(jobs, "job")}`;
  const size = quantityText(BigInt(bytes), MESSAGE_SIZE);
  return `${from}: ${collective} ${size} (${(100 * share).toFixed(0)} % of what they sent)`;
}
