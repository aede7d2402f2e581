/**
 * @file Operators' orders to a fleet: refuses those that make no sense, and folds the others into the ledger.
 *
 * An order is answered when it is accepted. If a plan is in the making, the ledger changes once that plan has been applied.
 */

import { fleetShapeProblem } from "../../domain/fleet/fleet-shape.ts";
import type { ClusterShape, FleetShape } from "../../domain/fleet/fleet.ts";
import { queueName, readQueuePart } from "../../domain/lease/queue-part.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { inOrder } from "../../lib/chain.ts";
import { jsonStart } from "../../lib/json-size.ts";
import { shapeRefusal } from "../../scheduling/ledger/apply/apply.ts";
import { MAX_QUEUE_HOLDS } from "../../scheduling/ledger/apply/apply-queue-holds.ts";
import {
  NEWEST_RULES,
  QUEUE_HOLD_RULES,
  type LedgerEvent,
} from "../../scheduling/ledger/ledger.ts";
import type { OperatorOrder } from "./events.ts";
import { fold, update, type FleetState, type FleetStep } from "./state.ts";

/** The orders that change the ledger at once. */
type LedgerOrder = Exclude<OperatorOrder, { readonly kind: "repair" | "upgrade" }>;

export interface OrderRefusal {
  readonly code: "NOT_FOUND" | "BAD_INPUT" | "NOT_ALLOWED";
  readonly message: string;
}

/** Refuses an order that names no host, or one that the fleet lacks. */
export function refuseHosts(
  { name, ledger }: Pick<FleetState, "name" | "ledger">,
  order: unknown,
): OrderRefusal | undefined {
  const hosts = hostsIn(order);
  const known = new Set<string>(
    ledger.shape.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id)),
  );
  const unknown = hosts.filter((host) => !known.has(host));
  if (hosts.length > 0 && unknown.length === 0) return undefined;
  return {
    code: "NOT_FOUND",
    message:
      hosts.length === 0
        ? "no host was named"
        : `fleet ${name} has no host ${unknown.join(", ")}; hosts are named cluster/host, see \`orbweaver fleet show\``,
  };
}

/**
 * Refuses what an agent orders by drains that it has seen, where these have changed since: `isNew` and `of` in `protocol/messages.ts`. Orders that wait
 * for the end of a cycle count.
 */
export function refuseOutdated(
  { ledger, deferred }: Pick<FleetState, "ledger" | "deferred">,
  order: unknown,
): OrderRefusal | undefined {
  const seen = seenDrains(order);
  if (seen === undefined) return undefined;
  const { isNew, of } = seen;
  const ordered = inOrder(deferred).flatMap((event) => (event.kind === "order" ? event.order : []));
  for (const host of hostsIn(order)) {
    const known = ledger.hosts.get(parseHostId(host));
    let reason = known?.isDrained === true ? (known.drainReason ?? "") : undefined;
    for (const one of ordered)
      if ((one.kind === "drain" || one.kind === "undrain") && one.hosts.includes(parseHostId(host)))
        reason = one.kind === "drain" ? one.reason : undefined;
    const isAsSeen = isNew ? reason === undefined : reason?.startsWith(of) === true;
    if (isAsSeen) continue;
    const found = reason === undefined ? "is not drained" : `is drained: ${reason}`;
    return { code: "NOT_ALLOWED", message: `${host} ${found}. Look again.` };
  }
  return undefined;
}

/** By which drains an agent orders: by none, or by those whose reasons begin with `of`. Undefined of what people order. */
export function seenDrains(
  order: unknown,
): { readonly isNew: boolean; readonly of: string } | undefined {
  if (typeof order !== "object" || order === null) return undefined;
  const isNew = "isNew" in order && order.isNew === true;
  const of = "of" in order && typeof order.of === "string" ? order.of : undefined;
  return isNew || of !== undefined ? { isNew, of: of ?? "" } : undefined;
}

/** Refuses a description that is no fleet's, and one for which the ledger has no room beside what it holds. */
export function refuseDescription(
  { ledger }: Pick<FleetState, "ledger">,
  description: unknown,
): OrderRefusal | undefined {
  const isRecord = typeof description === "object" && description !== null;
  const shape = isRecord && "shape" in description ? description.shape : undefined;
  const message = fleetShapeProblem(shape);
  if (message !== undefined) return { code: "BAD_INPUT", message };
  const refusal = shapeRefusal(ledger, shape as FleetShape); // as the check has found
  return refusal === undefined ? undefined : { code: "NOT_ALLOWED", message: refusal };
}

/** Refuses rules that this program does not know, and the way back. */
export function refuseRules(
  { name, ledger }: Pick<FleetState, "name" | "ledger">,
  rules: unknown,
): OrderRefusal | undefined {
  const { applyVersion } = ledger;
  const isKnown = Number.isInteger(rules) && Number(rules) <= NEWEST_RULES;
  if (isKnown && Number(rules) >= applyVersion) return undefined;
  return {
    code: "NOT_ALLOWED",
    message: isKnown
      ? `fleet ${name} follows rules ${applyVersion}; no way leads back to rules ${Number(rules)}`
      : `fleet ${name} cannot follow rules ${JSON.stringify(rules)}: the newest that its worker knows are ${NEWEST_RULES}; start workers of the newer release`,
  };
}

/** Refuses a hold or its end of no part of a queue, under rules without holds, and one hold too many. */
export function refuseQueueOrder(
  { name, ledger }: Pick<FleetState, "name" | "ledger">,
  order: unknown,
): OrderRefusal | undefined {
  const queue = typeof order === "object" && order !== null && "queue" in order && order.queue;
  const part = readQueuePart(queue);
  if (part === undefined)
    return {
      code: "BAD_INPUT",
      message: `${jsonStart(queue, 200)} is no part of a queue: name the fleet, a class or a tenant`,
    };
  if (ledger.applyVersion < QUEUE_HOLD_RULES)
    return {
      code: "NOT_ALLOWED",
      message: `fleet ${name} follows rules ${ledger.applyVersion}, which know no holds of queues; \`orbweaver fleet upgrade\` commits rules ${QUEUE_HOLD_RULES}`,
    };
  const { holds } = ledger;
  if (holds === undefined || holds.size < MAX_QUEUE_HOLDS || holds.has(queueName(part)))
    return undefined;
  return {
    code: "NOT_ALLOWED",
    message: `${MAX_QUEUE_HOLDS} parts of the queue are held already; release some of them`,
  };
}

/** The run ends soon after, so that the input of the next one has the change. */
export function applyOrder(
  step: FleetStep,
  order: Exclude<OperatorOrder, { kind: "repair" }>,
  nowMs: number,
): FleetStep {
  if (order.kind === "upgrade") return receiveUpgrade(step, order.rules);
  const folded = fold(step, eventOf(order, nowMs));
  const { recovery } = folded.state;
  return update(folded, {
    isChangedByHand: true,
    isTurnDue: true,
    // A new description may change the terms of agents.
    ...(order.kind === "configure" && { recovery: { ...recovery, isReportDue: true } }),
  });
}

export const clusterNamed = ({ clusters }: FleetShape, name: string): ClusterShape | undefined =>
  clusters.find(({ id }) => id === name);

/** The ledger of this run keeps its rules; `continue.ts` takes it to the new ones. */
function receiveUpgrade(step: FleetStep, rules: number): FleetStep {
  if (rules <= step.state.nextRules) return step;
  return update(step, { isChangedByHand: true, isTurnDue: true, nextRules: rules });
}

function eventOf(order: LedgerOrder, nowMs: number): LedgerEvent {
  if (order.kind === "hold-queue") {
    const { queue, by, isDraining, reason } = order;
    const hold = {
      queue,
      by,
      atMs: nowMs,
      ...(isDraining && { isDraining }),
      ...(reason !== undefined && { reason }),
    };
    return { kind: "queue-held", hold, nowMs };
  }
  if (order.kind === "release-queue") return { kind: "queue-released", queue: order.queue, nowMs };
  if (order.kind !== "configure") return { ...order, nowMs };
  const { kind: _kind, ...description } = order;
  return { kind: "fleet-changed", ...description, nowMs };
}

/** The hosts that an order names; empty when it is malformed. */
function hostsIn(order: unknown): readonly string[] {
  const hosts = typeof order === "object" && order !== null && "hosts" in order ? order.hosts : [];
  return Array.isArray(hosts) ? hosts.filter((host) => typeof host === "string") : [];
}
