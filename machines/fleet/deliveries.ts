/**
 * @file Sends the ledger's outbox and everything else that jobs must hear, a few deliveries at a time, and folds their reports.
 *
 * A cycle does not wait for a delivery. What a delivery did not bring to its job stays in the ledger and goes again after a pause.
 */

import type { DeliveryReport } from "../../protocol/control-contract.ts";
import { isClocked, QUIET_REPORT_RULES } from "../../scheduling/ledger/ledger.ts";
import { COST, spend } from "./continue.ts";
import { putBack } from "./held.ts";
import { parcelsOf } from "./lobby-news.ts";
import { nextNoticeAtMs } from "./notices.ts";
import { nextExpiryNoticeAtMs } from "./patience.ts";
import { hasUnsent, isEmpty, packPost } from "./post.ts";
import { fold, issue, update, type FleetState, type FleetStep, type Parcel } from "./state.ts";

/** Open deliveries; more grants wait for the next. */
const MAX_DELIVERIES = 4;
const REDELIVER_MS = 1_000;

/** When grants or orders may leave; infinite when none wait, or every place for a delivery is taken. */
export function nextUnsentAtMs(state: FleetState): number {
  const { underway, redeliverAtMs = 0 } = state.deliveries;
  return underway.size < MAX_DELIVERIES && hasUnsent(state) ? redeliverAtMs : Infinity;
}

/** When time alone lets something leave; infinite when every place for a delivery is taken. */
export function nextTimedPostAtMs(state: FleetState): number {
  const { ledger, cycle, deliveries, patience } = state;
  const { underway, redeliverAtMs, notified } = deliveries;
  if (underway.size >= MAX_DELIVERIES) return Infinity;
  const postAtMs = Math.min(
    nextNoticeAtMs(ledger, notified),
    // A cycle that is due may still place them.
    cycle.needsDecision ? Infinity : nextExpiryNoticeAtMs(patience, ledger),
    redeliverAtMs ?? Infinity,
  );
  return Math.max(postAtMs, redeliverAtMs ?? 0);
}

/** Sends what is ready, while there is a place for a delivery; by older rules one delivery, and a further turn sends the next. */
export function post(step: FleetStep, nowMs: number): FleetStep {
  const posted = postOne(step, nowMs);
  const isAnySent = posted.state.nextId > step.state.nextId;
  return isAnySent && isClocked(posted.state.ledger) && nextUnsentAtMs(posted.state) <= nowMs
    ? post(posted, nowMs)
    : posted;
}

function postOne(step: FleetStep, nowMs: number): FleetStep {
  const { deliveries, nextId } = step.state;
  if (deliveries.underway.size >= MAX_DELIVERIES) return step;
  if (deliveries.redeliverAtMs !== undefined && deliveries.redeliverAtMs > nowMs) return step;
  const { post: packed, news, held: carried, sent } = packPost(step.state, nowMs);
  const { patience, held, ...booked } = sent;
  const waiting = { ...deliveries, redeliverAtMs: undefined };
  if (isEmpty(packed)) return update(step, { patience, deliveries: waiting });
  const { grants, pending, losses = [], sweeps = [], evictions = [], lobbies } = packed;
  const parcel = {
    grants: grants.map(({ lease }) => lease.id),
    evictions: evictions.map(({ order }) => order.lease),
    lobbies: parcelsOf(news),
    held: carried,
  };
  const underway = new Map([...deliveries.underway, [nextId, parcel]]);
  const posted = update(step, { patience, held, deliveries: { ...waiting, ...booked, underway } });
  const payload = [grants, pending, losses, sweeps, evictions, ...(lobbies ?? [])];
  return issue(spend(posted, COST.delivery, payload), (id) => {
    return { kind: "deliver", id, post: packed };
  });
}

/** The report of an activity that gave up: as far as anybody knows, nothing has arrived. */
export const NOTHING_ARRIVED: DeliveryReport = { accepted: [], gone: [] };

/** Reports of unknown deliveries are ignored. */
export function receiveReport(
  step: FleetStep,
  answer: { readonly id: number; readonly report: DeliveryReport },
  nowMs: number,
): FleetStep {
  const parcel = step.state.deliveries.underway.get(answer.id);
  if (parcel === undefined) return step;
  const { accepted, gone } = answer.report;
  const { sent, gone: left } = answer.report.evictions ?? { sent: [], gone: [] };
  let folded = step;
  if (sent.length + left.length > 0)
    folded = fold(folded, { kind: "evictions-sent", sent, gone: left, nowMs });
  const told = new Set(answer.report.lobbies);
  const reached = parcel.lobbies.filter(({ tenant }) => told.has(tenant));
  const unheard = parcel.held.filter(({ lobby }) => !told.has(lobby));
  if (reached.length > 0) {
    const rows = reached.flatMap((each) => each.rows);
    const credits = reached.flatMap((each) => each.credits);
    folded = fold(folded, { kind: "lobbies-told", rows, credits, nowMs });
  }
  if (accepted.length + gone.length > 0 || parcel.grants.length === 0)
    folded = fold(folded, { kind: "delivered", accepted, gone, nowMs });
  const { deliveries } = folded.state;
  const underway = new Map([...deliveries.underway].filter(([id]) => id !== answer.id));
  const arrived = accepted.length + gone.length + sent.length + left.length + reached.length;
  const isAllThere =
    unheard.length === 0 &&
    arrived >= parcel.grants.length + parcel.evictions.length + parcel.lobbies.length;
  const redeliverAtMs = isAllThere ? deliveries.redeliverAtMs : nowMs + REDELIVER_MS;
  return update(folded, {
    held: putBack(folded.state.held, unheard),
    deliveries: { ...deliveries, underway, redeliverAtMs },
    isTurnDue: step.state.isTurnDue || !isQuiet(folded.state, parcel, answer.report),
  });
}

/**
 * Whether the delivery has brought every grant to its job, and nothing has waited for its place. Unless what has arrived makes something else due, which
 * its caller looks at, a turn would only set the fleet's clock again, for the same time.
 */
function isQuiet(
  { ledger, deliveries, cycle }: FleetState,
  { grants, evictions, lobbies, held }: Parcel,
  { accepted, gone }: DeliveryReport,
): boolean {
  return (
    ledger.applyVersion >= QUIET_REPORT_RULES &&
    deliveries.underway.size < MAX_DELIVERIES &&
    !cycle.needsDecision &&
    grants.length > 0 &&
    accepted.length === grants.length &&
    gone.length + evictions.length + lobbies.length + held.length === 0
  );
}
