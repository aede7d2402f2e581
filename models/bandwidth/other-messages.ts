/**
 * @file A model that was trained with messages of one kind, asked about others.
 *
 * Messages of which some sets were measured are answered by transfer (size-transfer.ts) from those of the training. Between the sizes of one
 * collective the bandwidth of each set follows α–β (message-profile.ts). A collective that was not measured counts as that of the
 * training, since bus bandwidth is defined to be comparable. Each kind is prepared when it is first asked for.
 * Cost: O(measured) for each set beside the answer for the messages of the training.
 */

import type {
  Appraised,
  BandwidthDomain,
  BandwidthPredictor,
  Candidate,
} from "../../domain/bandwidth/bandwidth-port.ts";
import {
  areSameMessages,
  bandwidthAt,
  messagesText,
  USUAL_MESSAGES,
  type MessageProfile,
} from "../../domain/bandwidth/message-profile.ts";
import { popCount } from "../../domain/lease/lease.ts";
import { appraised, type SeenBandwidth } from "./appraised.ts";
import type { HostLook, HostLooks } from "./features.ts";
import { insideGbs } from "./inside.ts";
import { sharesOf, type RememberedSample } from "./residual-memory.ts";
import { sizeRatio, type SizedPoint, type SizePoint, type SizeRatio } from "./size-transfer.ts";

export interface OtherMessages {
  readonly messages: MessageProfile;
  /** Inside hosts and over several. */
  readonly samples: readonly Omit<RememberedSample, "residual">[];
}

interface Trained {
  readonly settings: {
    readonly messages?: MessageProfile;
    readonly others?: readonly OtherMessages[];
    readonly clamp: boolean;
  };
  readonly looksOf: HostLooks;
  /** Of candidates over several hosts, with the messages of the training. */
  readonly answersFor: (candidates: readonly Candidate[]) => readonly (SeenBandwidth | undefined)[];
}

type View = BandwidthPredictor & Required<Pick<BandwidthPredictor, "appraise">>;

/** A measurement this close to what the slowest member host gives is explained by it. */
const EXPLAINED = 0.03;

export function atOtherMessages(
  own: View,
  trained: Trained,
): (messages: MessageProfile) => BandwidthPredictor {
  const { messages: usual = USUAL_MESSAGES, others = [] } = trained.settings;
  const known = new Map<string, View>();
  const measured = new Map<string, View>();
  const viewOf = (of: OtherMessages): View => {
    const key = messagesText(of.messages);
    const view = measured.get(key) ?? transferred(own, trained, { of, usual });
    measured.set(key, view);
    return view;
  };
  const open = (messages: MessageProfile): View => {
    const isKnown = others.some((other) => other.messages.collective === messages.collective);
    const collective = isKnown ? messages.collective : usual.collective;
    const sizes = [
      ...(collective === usual.collective ? [{ bytes: usual.bytes, view: own }] : []),
      ...others
        .filter((other) => other.messages.collective === collective)
        .map((other) => ({ bytes: other.messages.bytes, view: viewOf(other) })),
    ].sort((a, b) => a.bytes - b.bytes);
    const exact = sizes.find(({ bytes }) => bytes === messages.bytes);
    return exact?.view ?? between(own, sizes, messages);
  };
  const at = (messages: MessageProfile): BandwidthPredictor => {
    const key = messagesText(messages);
    const view = (): View => (areSameMessages(messages, usual) ? own : open(messages));
    const found = known.get(key) ?? { ...view(), at };
    known.set(key, found);
    return found;
  };
  return at;
}

function transferred(
  own: View,
  { settings: { clamp }, looksOf, answersFor }: Trained,
  { of, usual }: { readonly of: OtherMessages; readonly usual: MessageProfile },
): View {
  const { domain } = own;
  const step = { fromBytes: usual.bytes, toBytes: of.messages.bytes };
  const samples = of.samples.flatMap((sample) => {
    const shares = sharesOf(domain, sample);
    return shares === undefined ? [] : [{ shares, gbs: Math.exp(sample.logGbs) }];
  });
  const insidePoints = samples.flatMap(({ shares, gbs }): SizedPoint[] => {
    const [share, ...rest] = shares;
    if (share === undefined || rest.length > 0) return [];
    const point = insidePoint(domain, share.host, share.mask);
    return point === undefined ? [] : [{ point, gbs }];
  });
  const inside = sizeRatio(insidePoints, { ...step, kind: "inside" });
  const there = domainAt(domain, inside);
  const spread = samples.filter(
    ({ shares, gbs }) =>
      shares.length > 1 && !(clamp && gbs >= insideGbs(there, shares) * (1 - EXPLAINED)),
  );
  const answers = answersFor(spread.map(({ shares }) => shares));
  const acrossPoints = spread.flatMap(({ shares, gbs }, at): SizedPoint[] => {
    const answer = answers[at];
    return answer === undefined ? [] : [{ point: acrossPoint(looksOf(shares), answer), gbs }];
  });
  const seen = new Set(acrossPoints.map(({ point }) => point.name));
  const across = sizeRatio(acrossPoints, { ...step, kind: "across" });
  const transferredAnswers = (
    candidates: readonly Candidate[],
  ): readonly (SeenBandwidth | undefined)[] =>
    answersFor(candidates).map((answer, at) => {
      if (answer === undefined) return undefined;
      const point = acrossPoint(looksOf(candidates[at] ?? []), answer);
      const unseen = seen.has(point.name) ? 0 : answer.unseen;
      return { ...answer, gbs: answer.gbs * across(point), unseen };
    });
  return viewAs(own, {
    domain: there,
    messages: of.messages,
    appraise: (candidates) =>
      appraised(there, candidates, { clamp, answersFor: transferredAnswers }),
  });
}

interface SizedView {
  readonly bytes: number;
  readonly view: View;
}

/** Of each set, α–β through its bandwidths at the known sizes; at one known size there is only that one. */
function between(own: View, sizes: readonly SizedView[], messages: MessageProfile): View {
  const at = (gbs: readonly number[]): number =>
    bandwidthAt(
      sizes.map(({ bytes }, index) => ({ bytes, gbs: gbs[index] ?? NaN })),
      messages.bytes,
    );
  const intraGbs: BandwidthDomain["intraGbs"] = (host, mask) => {
    const gbs = sizes.map(({ view }) => view.domain.intraGbs(host, mask));
    const measured = gbs.filter((each) => each !== undefined);
    if (measured.length < gbs.length) return undefined;
    return measured.includes(Infinity) ? Infinity : at(measured);
  };
  const appraise = (candidates: readonly Candidate[]): readonly Appraised[] => {
    const each = sizes.map(({ view }) => view.appraise(candidates));
    return candidates.map((_, index) => ({
      predictedGbs: at(each.map((answers) => answers[index]?.predictedGbs ?? NaN)),
      countedGbs: at(each.map((answers) => answers[index]?.countedGbs ?? NaN)),
    }));
  };
  return viewAs(own, { domain: { ...own.domain, intraGbs }, messages, appraise });
}

/** The same model with the answers of other messages, under a version that names them. */
function viewAs(
  own: View,
  { messages, ...view }: Pick<View, "domain" | "appraise"> & { readonly messages: MessageProfile },
): View {
  return {
    ...own,
    ...view,
    version: `${own.version} at ${messagesText(messages)}`,
    predict: (candidates) => view.appraise(candidates).map(({ predictedGbs }) => predictedGbs),
  };
}

/** The tables inside hosts at another size; each mask is asked for once. */
function domainAt(domain: BandwidthDomain, ratio: SizeRatio): BandwidthDomain {
  const known = domain.hosts.map(() => new Map<number, number | undefined>());
  return {
    hosts: domain.hosts,
    intraGbs: (host, mask) => {
      const masks = known[host];
      if (masks?.has(mask) === true) return masks.get(mask);
      const gbs = domain.intraGbs(host, mask);
      const point = insidePoint(domain, host, mask);
      const there = point === undefined ? gbs : point.gbs * ratio(point);
      masks?.set(mask, there);
      return there;
    },
  };
}

/** Undefined of one GPU, and of what was not measured at the first size. */
function insidePoint(domain: BandwidthDomain, host: number, mask: number): SizePoint | undefined {
  const gbs = domain.intraGbs(host, mask);
  if (gbs === undefined || !Number.isFinite(gbs)) return undefined;
  const gpus = popCount(mask);
  const name = `${String(host)}:${String(mask)}`;
  return { hosts: 1, gpus, least: gpus, most: gpus, gbs, exception: 0, name };
}

function acrossPoint(
  looks: readonly HostLook[],
  { gbs, exception }: Pick<SeenBandwidth, "gbs" | "exception">,
): SizePoint {
  const counts = looks.map(({ count }) => count);
  return {
    hosts: looks.length,
    gpus: counts.reduce((sum, count) => sum + count, 0),
    least: Math.min(...counts),
    most: Math.max(...counts),
    gbs,
    exception,
    name: looks
      .map(({ gpuType, count }) => `${gpuType}:${String(count)}`)
      .sort()
      .join(),
  };
}
