/**
 * @file The fleet: one entity workflow that owns the ledger and runs one scheduling cycle after another.
 *
 * A cycle: fold the inbox through `apply` → `decide` on a snapshot (a local activity: the answer is in history) → fold the
 * plan through `apply` → send the grants off. Handlers only append or fold; they never throw and never await. All grants of a
 * cycle leave in one delivery, which the cycle does not wait for; what was not delivered stays in the outbox and goes again.
 * History grows per cycle (11 events at most), not per job; the workflow continues as new at 1,500 events or 2 MiB.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
} from "@temporalio/workflow";
import type { Delivery, FleetActivities, PendingNote } from "../activities/control-contract.ts";
import { fleetShapeProblem } from "../domain/fleet-shape.ts";
import { parseHostId, type HostId, type JobId, type LeaseId } from "../domain/ids.ts";
import { gpuCountOf } from "../domain/lease.ts";
import { MAX_PLAN_ITEMS } from "../domain/plan.ts";
import { apply } from "../scheduling/apply.ts";
import { packLedger, unpackLedger } from "../scheduling/ledger-codec.ts";
import type { LedgerEvent } from "../scheduling/ledger.ts";
import { pendingNotes, type Told } from "./pending-notes.ts";
import {
  configureUpdate,
  drainUpdate,
  explainQuery,
  hostQuery,
  inboxSignal,
  ledgerQuery,
  undrainUpdate,
  type FleetAnswer,
  type FleetInput,
} from "./messages.ts";

const CONTINUE_AT_EVENTS = 1_500;
const CONTINUE_AT_BYTES = 2 * 1024 * 1024;
/** Past this many events the workflow continues even if deliveries are on their way; they go again. */
const CONTINUE_AT_ANY_COST_EVENTS = 3_000;
/** Deliveries on their way at once; more winners wait for the next. */
const MAX_DELIVERIES = 4;
/** Grants and notes in one delivery. */
const MAX_POST = 200;
/** Pause before grants that could not be delivered go again. */
const REDELIVER_MS = 1_000;

const { decide } = proxyLocalActivities<Pick<FleetActivities, "decide">>({
  startToCloseTimeout: "5s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});
const { deliver } = proxyActivities<Pick<FleetActivities, "deliver">>({
  startToCloseTimeout: "30s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

export async function fleet(input: FleetInput): Promise<never> {
  let ledger = unpackLedger(input.ledger);
  let needsDecision = ledger.requests.size > 0;
  /** When a clock alone may change the plan. */
  let wakeAtMs: number | undefined;
  let redeliverAtMs: number | undefined;
  const inbox: unknown[] = [];
  const told = new Map<JobId, Told>(
    (input.told ?? []).map(([id, code, atMs]) => [id, { code, atMs }]),
  );
  const onTheWay = new Set<LeaseId>();
  let deliveries = 0;
  /** What this run has cost of its history, at most. */
  const spent = { events: 0, bytes: 0 };
  /** A delivery has come back, so a place for the next one is free. */
  let hasPlace = false;

  const fold = (event: LedgerEvent): void => {
    const applied = apply(ledger, event);
    ledger = applied.ledger;
    needsDecision ||= applied.needsDecision;
  };

  setHandler(inboxSignal, (batch) => {
    spend(4, batch);
    // A junk signal is one junk entry: `apply` puts it with the dead letters.
    for (const entry of Array.isArray(batch) ? batch : [batch]) inbox.push(entry);
  });
  setHandler(ledgerQuery, () => packLedger(ledger));
  setHandler(hostQuery, (host) => ledger.hosts.get(parseHostId(host))?.agent ?? null);
  setHandler(explainQuery, (id) => explain(id));
  const refuseUnknownHosts = (order: unknown): void => {
    const hosts = hostsOf(order);
    const unknown = hosts.filter((host) => !knows(host));
    if (hosts.length > 0 && unknown.length === 0) return;
    throw ApplicationFailure.nonRetryable(
      hosts.length === 0
        ? "no host was named"
        : `fleet ${input.name} has no host ${unknown.join(", ")}; hosts are named cluster/host, see \`orbweaver fleet show\``,
      "NOT_FOUND",
    );
  };
  setHandler(
    drainUpdate,
    ({ hosts, reason }) => {
      const ids = hosts.map(parseHostId);
      fold({ kind: "drain", hosts: ids, reason: String(reason), nowMs: Date.now() });
      return ids;
    },
    { validator: refuseUnknownHosts },
  );
  setHandler(
    undrainUpdate,
    ({ hosts }) => {
      const ids = hosts.map(parseHostId);
      fold({ kind: "undrain", hosts: ids, nowMs: Date.now() });
      return ids;
    },
    { validator: refuseUnknownHosts },
  );
  setHandler(
    configureUpdate,
    ({ shape, detailsHash }) =>
      fold({
        kind: "fleet-changed",
        shape,
        ...(typeof detailsHash === "string" && { detailsHash }),
        nowMs: Date.now(),
      }),
    {
      validator: (description) => {
        const problem = fleetShapeProblem((description as { shape?: unknown } | undefined)?.shape);
        if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, "BAD_INPUT");
      },
    },
  );

  for (;;) {
    setCurrentDetails(summary());
    await untilWork();
    if (inbox.length > 0) fold({ kind: "inbox", entries: inbox.splice(0), nowMs: Date.now() });
    if (wakeAtMs !== undefined && wakeAtMs <= Date.now()) needsDecision = true;
    if (!mustContinue()) {
      if (ledger.requests.size === 0) {
        needsDecision = false;
        wakeAtMs = undefined;
      } else if (needsDecision) await cycle();
      post();
    } else {
      await condition(allHandlersFinished);
      if (inbox.length > 0) fold({ kind: "inbox", entries: inbox.splice(0), nowMs: Date.now() });
      await continueAsNew<typeof fleet>({
        name: input.name,
        ledger: packLedger(ledger),
        told: [...told].map(([id, { code, atMs }]) => [id, code, atMs] as const),
      });
    }
  }

  async function untilWork(): Promise<void> {
    const isWork = (): boolean =>
      inbox.length > 0 || needsDecision || hasPlace || hasPost() || mustContinue();
    const postAtMs = Math.min(redeliverAtMs ?? Infinity, nextNoteAtMs());
    const dueAtMs = Math.min(
      wakeAtMs ?? Infinity,
      deliveries >= MAX_DELIVERIES ? Infinity : Math.max(postAtMs, redeliverAtMs ?? 0),
    );
    if (dueAtMs === Infinity) await condition(isWork);
    else {
      spend(6, undefined);
      await condition(isWork, Math.max(1, dueAtMs - Date.now()));
    }
  }

  async function cycle(): Promise<void> {
    needsDecision = false;
    const plan = await decide(packLedger(ledger), Date.now());
    spend(4, plan);
    fold({ kind: "plan", plan, nowMs: Date.now() });
    wakeAtMs = plan.wakeAtMs;
    // A full plan may have left some out.
    if (plan.items.length >= MAX_PLAN_ITEMS) needsDecision = true;
  }

  function waitingGrants(): LeaseId[] {
    return [...ledger.outbox.keys()].filter((id) => !onTheWay.has(id));
  }

  function hasPost(): boolean {
    const isBackingOff = redeliverAtMs !== undefined && redeliverAtMs > Date.now();
    return deliveries < MAX_DELIVERIES && !isBackingOff && waitingGrants().length > 0;
  }

  function nextNoteAtMs(): number {
    return pendingNotes(ledger, told, Date.now()).nextAtMs;
  }

  /** Sends what is ready to be sent, without waiting for it. */
  function post(): void {
    hasPlace = false;
    if (deliveries >= MAX_DELIVERIES) return;
    if (redeliverAtMs !== undefined && redeliverAtMs > Date.now()) return;
    redeliverAtMs = undefined;
    const grants = waitingGrants().slice(0, MAX_POST).flatMap(deliveryOf);
    const notes = pendingNotes(ledger, told, Date.now()).notes.slice(0, MAX_POST);
    if (grants.length === 0 && notes.length === 0) return;
    for (const { lease } of grants) onTheWay.add(lease.id);
    for (const { jobId, reason } of notes) told.set(jobId, { code: reason.code, atMs: Date.now() });
    for (const id of told.keys()) if (!ledger.requests.has(id)) told.delete(id);
    deliveries += 1;
    spend(6, [grants, notes]);
    void send(grants, notes);
  }

  async function send(grants: readonly Delivery[], pending: readonly PendingNote[]): Promise<void> {
    try {
      const { accepted, gone } = await deliver({ grants, pending });
      fold({ kind: "delivered", accepted, gone, nowMs: Date.now() });
      if (accepted.length + gone.length < grants.length) redeliverAtMs = Date.now() + REDELIVER_MS;
    } catch {
      // The delivery gave up: its grants are still in the outbox and go again after a pause.
      redeliverAtMs = Date.now() + REDELIVER_MS;
    } finally {
      for (const { lease } of grants) onTheWay.delete(lease.id);
      deliveries -= 1;
      hasPlace = true;
    }
  }

  function deliveryOf(id: LeaseId): Delivery[] {
    const lease = ledger.leases.get(id);
    const grant = ledger.outbox.get(id);
    if (lease === undefined || grant === undefined) return [];
    const agents = lease.gpus.flatMap(({ host }) => {
      const agent = ledger.hosts.get(host)?.agent;
      return agent === undefined ? [] : [{ host, agent }];
    });
    return [{ lease, agents, ...grant }];
  }

  /** Judged by what was done, not by the history's length as the server tells it: that may read otherwise on replay. */
  function mustContinue(): boolean {
    if (spent.events >= CONTINUE_AT_ANY_COST_EVENTS) return true;
    return (
      deliveries === 0 && (spent.events >= CONTINUE_AT_EVENTS || spent.bytes >= CONTINUE_AT_BYTES)
    );
  }

  /** Notes the most events that something can have cost, with what it carried. */
  function spend(events: number, carried: unknown): void {
    spent.events += events;
    spent.bytes += 500 + (JSON.stringify(carried) ?? "").length;
  }

  function explain(id: string): FleetAnswer {
    const held = [...ledger.leases.values()].filter((lease) => lease.jobId === id);
    if (held.length > 0) return { kind: "leased", leases: held };
    const waiting = [...ledger.requests.values()];
    const position = waiting.findIndex((request) => request.jobId === id);
    const request = waiting[position];
    if (request === undefined) return { kind: "unknown" };
    const reason = ledger.reasons.get(request.jobId) ?? {
      code: "PendingEvaluation" as const,
      message: `${id} has not been looked at yet`,
      numbers: {},
      holders: [],
      wakeOn: ["timer" as const],
    };
    return {
      kind: "waiting",
      position: position + 1,
      waiting: waiting.length,
      requestedAtMs: request.requestedAtMs,
      reason,
    };
  }

  function knows(host: string): boolean {
    return ledger.shape.clusters.some((cluster) => cluster.hosts.some(({ id }) => id === host));
  }

  function summary(): string {
    const hosts: readonly HostId[] = ledger.shape.clusters.flatMap((cluster) =>
      cluster.hosts.map(({ id }) => id),
    );
    const gpuCount = ledger.shape.clusters
      .flatMap((cluster) => cluster.hosts)
      .reduce((sum, host) => sum + host.gpuCount, 0);
    const leased = [...ledger.leases.values()].reduce((sum, { gpus }) => sum + gpuCountOf(gpus), 0);
    const answering = hosts.filter((host) => ledger.hosts.get(host)?.agent !== undefined).length;
    return [
      `**Fleet ${input.name}**: ${leased} of ${gpuCount} GPUs leased, ${ledger.leases.size} leases, ${ledger.requests.size} requests waiting`,
      "",
      `${answering} of ${hosts.length} hosts have an agent · next token ${ledger.nextToken} · ${ledger.deadLetters.length} dead letters`,
    ].join("\n");
  }
}

/** The hosts that an order names; none when it is junk. */
function hostsOf(order: unknown): readonly string[] {
  const hosts = typeof order === "object" && order !== null && "hosts" in order ? order.hosts : [];
  return Array.isArray(hosts) ? hosts.filter((host) => typeof host === "string") : [];
}
