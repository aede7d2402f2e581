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

interface Kind {
  readonly of: MessageProfile;
  readonly samples: OtherMessages["samples"][number][];
  /** The sets that were measured again, stale ones too. */
  readonly again: Set<string>;
}

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

/**
 * All but `messages`, the newest first: new measurements, and of an earlier model's those whose sets were not measured again. Stale ones, which
 * count less, are left out: here none counts less than another.
 */
export function otherMessages(
  {
    domain,
    samples,
    from,
  }: {
    readonly domain: BandwidthDomain;
    readonly samples: readonly (BandwidthSample & { readonly weight?: number })[];
    readonly from?: { readonly settings: { readonly others?: readonly OtherMessages[] } };
  },
  messages: MessageProfile,
): readonly OtherMessages[] {
  const kinds = new Map<string, Kind>();
  const kindOf = (of: MessageProfile): Kind => {
    const kind = kinds.get(messagesText(of)) ?? { of, samples: [], again: new Set() };
    kinds.set(messagesText(of), kind);
    return kind;
  };
  for (const { shares, gbs, weight = 1, messages: own = USUAL_MESSAGES } of [
    ...samples,
  ].reverse()) {
    if (areSameMessages(own, messages) || !(gbs > 0)) continue;
    const sample = {
      hosts: shares.map(({ host }) => domain.hosts[host]?.id ?? ""),
      masks: shares.map(({ mask }) => mask),
      logGbs: Math.log(gbs),
    };
    const kind = kindOf(own);
    kind.again.add(nameOf(sample));
    if (weight >= 1) kind.samples.push(sample);
  }
  for (const former of from?.settings.others ?? []) {
    const kind = kindOf(former.messages);
    kind.samples.push(...former.samples.filter((sample) => !kind.again.has(nameOf(sample))));
  }
  return [...kinds.values()]
    .filter((kind) => kind.samples.length > 0)
    .map((kind) => ({ messages: kind.of, samples: kind.samples.slice(0, MOST_OF_OTHERS) }));
}

const nameOf = ({ hosts, masks }: OtherMessages["samples"][number]): string =>
  hosts.map((host, at) => `${host}:${String(masks[at])}`).join(" ");
