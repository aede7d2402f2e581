/**
 * @file The thread of `decider.ts`: keeps the ledgers of fleets and follows them, opens the bandwidth models that they name, decides, answers.
 *
 * Two such threads run: one decides by `decide`, the other by the baseline. A question is worked on after the one before it, because the
 * feeding of a ledger must not be overtaken. An error drops the fleet's ledger, so the next feeding is answered as stale.
 */

import { parentPort, workerData } from "node:worker_threads";
import type { Plan } from "../domain/lease/plan.ts";
import { keepersByService, type KeepersOf } from "../domain/lease/kept-weights.ts";
import { openMessages, type MessagesOf } from "../domain/bandwidth/sent-messages.ts";
import type { HostId } from "../domain/values/ids.ts";
import type { StaleReason } from "../protocol/control-contract.ts";
import type { DecidePorts } from "../scheduling/cycle/decide.ts";
import { openFollower, type Follower } from "../scheduling/cycle/ledger-follower.ts";
import { openSession, type Session } from "../scheduling/cycle/live-scheduler.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import {
  named,
  type KnownRuns,
  type ThreadAnswer,
  type ThreadData,
  type ThreadQuestion,
} from "./decide-messages.ts";
import { createModelCache } from "./model-cache.ts";
import { planPrices, type LearnedPrices } from "./plan-prices.ts";
import { directoryStore, type FleetDetails } from "./store.ts";

/** The most requests, leases and hosts of all kept ledgers together; the fleet that was asked about last is kept in any case. */
const MOST_KEPT = 200_000;

const { storeDir, method } = workerData as ThreadData;
const store = directoryStore(storeDir);
const modelCache = createModelCache(storeDir);
const knownSteps = new Map<string, NonNullable<KnownRuns["steps"]>>();
const knownMessages = new Map<string, MessagesOf>();
const knownKeepers = new Map<string, KeepersOf>();
/** By fleet, the one that was asked about last at the end. */
const followers = new Map<string, Follower>();
let loaded: { readonly hash: string; readonly details: FleetDetails | undefined } | undefined;

async function answerTo(question: ThreadQuestion): Promise<ThreadAnswer> {
  const { id, kind, nowMs, isFedOnly } = question;
  try {
    const session = sessionFor(question);
    if (typeof session === "string") return { id, kind: "stale", reason: session };
    if (isFedOnly && kind !== "snapshot") return { id, kind: "fed" };
    // On a snapshot even where nobody waits for it: the first decision opens the indexes.
    const { ledger } = session;
    const fleet = fleetOf(question) ?? "";
    let [areSteps, areKeepers] = [false, false];
    const ports = await portsFor(ledger, {
      kept: knownSteps.get(fleet) ?? [],
      onAsked: () => {
        areSteps = true;
      },
      messagesOf: knownMessages.get(fleet),
      keepersOf: (service) => {
        areKeepers = true;
        return knownKeepers.get(fleet)?.(service);
      },
    });
    const plan = session.decide(nowMs, ports);
    if (isFedOnly) return { id, kind: "fed" };
    const areMessages = ports.predictorOf !== undefined;
    const clusters = ledger.shape.clusters.map((cluster) => cluster.id);
    const wanted = { clusters, areSteps, areMessages, areKeepers };
    const isWanted = areSteps || areMessages || areKeepers;
    return { id, kind: "plan", ...named(plan), ...(isWanted && { wanted }) };
  } catch (error) {
    if (question.kind === "feed") followers.delete(question.feed.fleet);
    if (question.kind === "snapshot") followers.delete(question.snapshot.fleet);
    const message = error instanceof Error ? (error.stack ?? error.message) : String(error);
    return { id, kind: "error", message };
  }
}

const fleetOf = (question: ThreadQuestion): string | undefined => {
  if (question.kind === "once") return undefined;
  if (question.kind === "kept") return question.fleet;
  return (question.kind === "snapshot" ? question.snapshot : question.feed).fleet;
};

function sessionFor(question: ThreadQuestion): Pick<Session, "ledger" | "decide"> | StaleReason {
  if (question.kind === "once") return openSession(unpackLedger(question.ledger), { method });
  if (question.kind === "snapshot") {
    const { fleet, hash, ledger } = question.snapshot;
    const follower = openFollower(unpackLedger(ledger), hash, { method });
    keep(fleet, follower);
    return follower.session;
  }
  if (question.kind === "kept") {
    const kept = followers.get(question.fleet);
    if (kept === undefined) return "new";
    return kept.hash() === question.hash ? kept.session : "other";
  }
  const { feed, plans } = question;
  const follower = followers.get(feed.fleet);
  if (follower === undefined) return "new";
  const planOf = (answer: string): Plan | undefined => {
    const text = plans.get(answer);
    return text === undefined ? undefined : (JSON.parse(text) as Plan); // the decider's own
  };
  const followed = follower.follow({ ...feed, planOf });
  if (followed !== "followed") {
    followers.delete(feed.fleet);
    return followed;
  }
  keep(feed.fleet, follower);
  return follower.session;
}

function keep(fleet: string, follower: Follower): void {
  followers.delete(fleet);
  followers.set(fleet, follower);
  let kept = [...followers.values()].reduce((sum, each) => sum + sizeOf(each), 0);
  for (const [oldest, other] of followers) {
    if (kept <= MOST_KEPT || oldest === fleet) return;
    followers.delete(oldest);
    kept -= sizeOf(other);
  }
}

const sizeOf = ({ session: { ledger } }: Follower): number =>
  ledger.requests.size + ledger.leases.size + ledger.hosts.size;

interface Learned extends LearnedPrices {
  readonly messagesOf: MessagesOf | undefined;
  readonly keepersOf: KeepersOf;
}

async function portsFor(
  ledger: Ledger,
  { messagesOf, keepersOf, ...learned }: Learned,
): Promise<DecidePorts> {
  if (method === "baseline") return {};
  const details = await detailsOf(ledger.detailsHash);
  const tables = new Map(details?.hosts ?? []);
  const bandwidthOf = (host: HostId, mask: number): number | undefined =>
    tables.get(host)?.bandwidth?.gbsByMask[mask] ?? undefined;
  const predictorOf =
    ledger.models === undefined ? undefined : await modelCache.predictorsFor(ledger, tables);
  return {
    bandwidthOf,
    ...(predictorOf !== undefined && { predictorOf }),
    ...(messagesOf !== undefined && { messagesOf }),
    keepersOf,
    pricesOf: planPrices(ledger.shape, learned),
  };
}

async function detailsOf(hash: string | undefined): Promise<FleetDetails | undefined> {
  if (hash === undefined) return undefined;
  if (loaded?.hash !== hash) loaded = { hash, details: await store.get<FleetDetails>(hash) };
  return loaded.details;
}

let last = Promise.resolve();
parentPort?.on("message", (question: ThreadQuestion | KnownRuns) => {
  if (question.kind === "known") {
    const { fleet, steps, messages, keepers } = question;
    if (steps !== undefined) knownSteps.set(fleet, steps);
    if (messages !== undefined) knownMessages.set(fleet, openMessages(messages));
    if (keepers !== undefined) knownKeepers.set(fleet, keepersByService(keepers));
    return;
  }
  last = last.then(async () => parentPort?.postMessage(await answerTo(question)));
});
