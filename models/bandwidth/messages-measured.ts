/**
 * @file Sorts measurements by the messages that they are of: those that the Transformer learns, and the few of others, from which transfers are made.
 */

import type { BandwidthDomain, BandwidthSample } from "../../domain/bandwidth/bandwidth-port.ts";
import {
  areSameMessages,
  messagesText,
  USUAL_MESSAGES,
  type MessageProfile,
} from "../../domain/bandwidth/message-profile.ts";
import type { OtherMessages } from "./other-messages.ts";

/** Of one kind of messages, the newest. */
const MOST_OF_OTHERS = 200;

/** The messages of most of the measurements over several hosts; `USUAL_MESSAGES` when none has more. */
export function mostMeasured(samples: readonly BandwidthSample[]): MessageProfile {
  const counts = new Map<string, { readonly messages: MessageProfile; count: number }>();
  counts.set(messagesText(USUAL_MESSAGES), { messages: USUAL_MESSAGES, count: 0 });
  for (const { shares, messages = USUAL_MESSAGES } of samples) {
    const key = messagesText(messages);
    const kind = counts.get(key) ?? { messages, count: 0 };
    counts.set(key, kind);
    if (shares.length > 1) kind.count += 1;
  }
  return [...counts.values()].reduce((most, kind) => (kind.count > most.count ? kind : most))
    .messages;
}

/** All but `messages`: new measurements, and of an earlier model's those whose sets were not measured again. */
export function otherMessages(
  {
    domain,
    samples,
    from,
  }: {
    readonly domain: BandwidthDomain;
    readonly samples: readonly BandwidthSample[];
    readonly from?: { readonly settings: { readonly others?: readonly OtherMessages[] } };
  },
  messages: MessageProfile,
): readonly OtherMessages[] {
  const kinds = new Map<
    string,
    { of: MessageProfile; samples: OtherMessages["samples"][number][] }
  >();
  const kindOf = (of: MessageProfile): OtherMessages["samples"][number][] => {
    const kind = kinds.get(messagesText(of)) ?? { of, samples: [] };
    kinds.set(messagesText(of), kind);
    return kind.samples;
  };
  for (const { shares, gbs, messages: own = USUAL_MESSAGES } of samples) {
    if (areSameMessages(own, messages) || !(gbs > 0)) continue;
    kindOf(own).push({
      hosts: shares.map(({ host }) => domain.hosts[host]?.id ?? ""),
      masks: shares.map(({ mask }) => mask),
      logGbs: Math.log(gbs),
    });
  }
  for (const former of from?.settings.others ?? []) {
    const own = kindOf(former.messages);
    const again = new Set(own.map(nameOf));
    own.push(...former.samples.filter((sample) => !again.has(nameOf(sample))));
  }
  return [...kinds.values()].map((kind) => ({
    messages: kind.of,
    samples: kind.samples.slice(0, MOST_OF_OTHERS),
  }));
}

const nameOf = ({ hosts, masks }: OtherMessages["samples"][number]): string =>
  hosts.map((host, at) => `${host}:${String(masks[at])}`).join(" ");
