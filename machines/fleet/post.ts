/**
 * @file Puts together the post of one delivery: grants, notices, losses, sweeps and eviction orders that are ready to be sent.
 *
 * Pure functions of the state. A lease that an open delivery carries is left out. Each loss and each sweep goes once between two audits.
 * Cost: O(ledger).
 */

import { clusterOf, type JobId, type LeaseId } from "../../domain/values/ids.ts";
import type { LeaseFact } from "../../domain/lease/lease.ts";
import type { Delivery, EvictionOrder, Loss, Post } from "../../protocol/control-contract.ts";
import type { SweepInput } from "../../protocol/fleet.ts";
import type { LobbyNews } from "../../protocol/lobby.ts";
import type { OutsideRow } from "../../scheduling/ledger/intake.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { copyOf } from "../../lib/draft-map.ts";
import { lossesOf, sweepsOf } from "./audit-order.ts";
import { revokedLosses, unsentOrders } from "./evictions.ts";
import { noticeOf, noticesDue, type Notified } from "./notices.ts";
import { heldForPost, withHeld } from "./held.ts";
import { lobbyNews, outsideReasons } from "./lobby-news.ts";
import { clusterNamed } from "./orders.ts";
import { takeExpired } from "./patience.ts";
import type { DeliveriesState, FleetState } from "./state.ts";

/** Items of each kind in one delivery. */
const MAX_POST = 200;

export interface Packed {
  readonly post: Post;
  /** What the ledger has for lobbies, and what the machine holds for them. */
  readonly news: readonly LobbyNews[];
  readonly held: readonly OutsideRow[];
  /** The state as it is once the post is on its way, but for the delivery itself. */
  readonly sent: Pick<FleetState, "patience" | "held"> &
    Pick<DeliveriesState, "notified" | "orphaned" | "reported">;
}

export function packPost(state: FleetState, nowMs: number): Packed {
  const { name, ledger, deliveries } = state;
  const grants = waitingGrants(state).slice(0, MAX_POST).flatMap(deliveryOf(ledger));
  const { notes, ...notices } = packNotices(state, nowMs);
  const claimed = deliveries.orphaned.map(lossOf);
  const { items: lost, reported: withLost } = onlyNew(
    [...lossesOf(ledger), ...revokedLosses(ledger)],
    keyOfLoss,
    deliveries.reported,
  );
  const { items: sweeps, reported } = onlyNew(sweepsOf(name, ledger), keyOfSweep, withLost);
  const losses = [...claimed, ...lost];
  const evictions = waitingOrders(state).slice(0, MAX_POST);
  const news = lobbyNews(state, MAX_POST);
  const held = heldNow(state);
  const lobbies = withHeld(name, news, held.rows);
  const outside = outsideReasons(ledger, lobbies);
  return {
    news,
    held: held.rows,
    post: {
      grants,
      pending: notes,
      ...(losses.length > 0 && { losses }),
      ...(sweeps.length > 0 && { sweeps }),
      ...(evictions.length > 0 && { evictions }),
      ...(lobbies.length > 0 && { lobbies }),
      ...(outside.length > 0 && { outside }),
    },
    sent: { ...notices, orphaned: [], reported, held: held.rest },
  };
}

export const isEmpty = ({ grants, pending, losses, sweeps, evictions, lobbies }: Post): boolean =>
  [grants, pending, losses ?? [], sweeps ?? [], evictions ?? [], lobbies ?? []].every(
    ({ length }) => length === 0,
  );

/** Whether grants, orders or news for lobbies wait to be sent. Notices have times of their own. */
export const hasUnsent = (state: FleetState): boolean =>
  waitingGrants(state).length > 0 ||
  waitingOrders(state).length > 0 ||
  lobbyNews(state, 1).length > 0 ||
  (state.held.size > 0 && heldNow(state).rows.length > 0);

const heldNow = ({ held, deliveries }: FleetState): ReturnType<typeof heldForPost> =>
  heldForPost(
    held,
    [...deliveries.underway.values()].map((parcel) => parcel.held),
  );

function waitingGrants({ ledger, deliveries }: FleetState): readonly LeaseId[] {
  const underway = leasesUnderway(deliveries);
  return [...ledger.outbox.keys()].filter((id) => !underway.has(id));
}

function waitingOrders({ ledger, deliveries }: FleetState): readonly EvictionOrder[] {
  const underway = leasesUnderway(deliveries);
  return unsentOrders(ledger).filter(({ order }) => !underway.has(order.lease));
}

const leasesUnderway = ({ underway }: DeliveriesState): ReadonlySet<LeaseId> =>
  new Set([...underway.values()].flatMap(({ grants, evictions }) => [...grants, ...evictions]));

/** A job whose patience is over gets that notice alone. */
function packNotices(
  { name, ledger, cycle, patience: before, deliveries }: FleetState,
  nowMs: number,
) {
  // A cycle that is due may still place them.
  const { patience, notes: expired } = takeExpired(before, ledger, {
    fleet: name,
    most: cycle.needsDecision ? 0 : MAX_POST,
    nowMs,
  });
  const isExpired = new Set(expired.map(({ jobId }) => jobId));
  const plain = noticesDue(ledger, deliveries.notified, nowMs)
    .filter(({ jobId }) => !isExpired.has(jobId))
    .slice(0, MAX_POST);
  const newest = plain.map(
    ({ jobId, seq, reason }) =>
      [jobId, noticeOf(ledger, { code: reason.code, atMs: nowMs, seq })] as const,
  );
  const notified = notifiedAfter(deliveries.notified, newest, ledger.requests);
  return { notes: [...expired, ...plain], patience, notified };
}

/** Without those who wait no more; the very map where nothing changes. */
function notifiedAfter(
  before: DeliveriesState["notified"],
  newest: readonly (readonly [JobId, Notified])[],
  requests: Ledger["requests"],
): DeliveriesState["notified"] {
  const gone: JobId[] = [];
  for (const job of before.keys()) if (!requests.has(job)) gone.push(job);
  if (gone.length === 0 && newest.length === 0) return before;
  const after = copyOf(before);
  for (const job of gone) after.delete(job);
  for (const [job, note] of newest) after.set(job, note);
  return after;
}

const deliveryOf =
  (ledger: Ledger) =>
  (id: LeaseId): Delivery[] => {
    const lease = ledger.leases.get(id);
    const grant = ledger.outbox.get(id);
    if (lease === undefined || grant === undefined) return [];
    const agents = lease.gpus.flatMap(({ host }) => {
      const agent = ledger.hosts.get(host)?.agent;
      if (agent === undefined) return [];
      const { silenceMs } = clusterNamed(ledger.shape, clusterOf(host)) ?? {};
      return [{ host, agent, ...(silenceMs !== undefined && { silenceMs }) }];
    });
    // Only decisions read the terms; the job knows them from its own file, but not whether they count.
    const { terms, ...slim } = lease;
    const { resources } = terms?.constraints ?? {};
    return [
      { lease: { ...slim, ...(resources !== undefined && { resources }) }, agents, ...grant },
    ];
  };

const lossOf = ({ jobId, runId, id, gpus }: LeaseFact): Loss => ({
  jobId,
  runId,
  lease: id,
  hosts: gpus.map(({ host }) => host),
});

const keyOfLoss = ({ lease, hosts }: Loss): string => [lease, ...hosts].join(" ");

const keyOfSweep = ({ lease }: SweepInput): string => `sweep ${lease}`;

/** The first items, without those whose keys have been reported. */
function onlyNew<Item>(
  items: readonly Item[],
  keyOf: (item: Item) => string,
  reported: ReadonlySet<string>,
): { readonly items: readonly Item[]; readonly reported: ReadonlySet<string> } {
  const unreported = new Map(
    items
      .slice(0, MAX_POST)
      .map((item) => [keyOf(item), item] as const)
      .filter(([key]) => !reported.has(key)),
  );
  return {
    items: [...unreported.values()],
    reported: new Set([...reported, ...unreported.keys()]),
  };
}
