/**
 * @file The fleet: one entity workflow that owns the ledger and runs one scheduling cycle after another.
 *
 * A cycle: fold the inbox through `apply` → `decide` on a snapshot (a local activity: the answer is in history) → fold the
 * plan through `apply` → send the grants, and the orders to give up leases, off. Handlers only append or fold; they never throw and never await. All grants of a
 * cycle leave in one delivery, which the cycle does not wait for; what was not delivered stays in the outbox and goes again.
 * The end of a local activity may come together with later events when a query is answered in between, and on replay before them
 * (docs/decisions/0014): so from the start of `decide` until its grants are on their way nothing else changes the ledger, and no
 * clock is read.
 * Now and then, while jobs wait, an activity estimates when some of them will start; what comes of it is kept (scheduling/foreseen.ts).
 * Beside the cycles, while anything is held or waits, an audit looks at the jobs themselves every 30 s (every 10 minutes when
 * nothing has changed for 5), clocks fence hosts that have been silent for long, and take back leases that were not given up in time. A fleet that was started again after its end
 * asks agents and jobs what there is, and grants nothing before they could answer.
 * History grows per cycle (11 events at most), not per job; the workflow continues as new at 1,500 events or 2 MiB, and after
 * every change by an operator, so that the input of its last run always has the newest description.
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
  workflowInfo,
} from "@temporalio/workflow";
import type {
  Delivery,
  DeliveryReport,
  EvictionOrder,
  FleetActivities,
  Loss,
  Post,
} from "../activities/control-contract.ts";
import { fleetShapeProblem } from "../domain/fleet-shape.ts";
import { clusterOf, parseHostId, type JobId, type LeaseId } from "../domain/ids.ts";
import type { LeaseFact } from "../domain/lease.ts";
import { MAX_PLAN_ITEMS } from "../domain/plan.ts";
import { apply, nextFenceAtMs, nextReturnAtMs } from "../scheduling/apply.ts";
import { packLedger, unpackLedger } from "../scheduling/ledger-codec.ts";
import type { Applied, LedgerEvent } from "../scheduling/ledger.ts";
import { auditOrder, auditPeriodMs, lossesOf, sweepsOf } from "./fleet-care.ts";
import { mayAnyGrow, nextGrowthAtMs, revokedLosses, unsentOrders } from "./fleet-evictions.ts";
import {
  checkHosts,
  clusterDescription,
  clusterNamed,
  shapeOf,
  silenceTermsOf,
} from "./fleet-orders.ts";
import { openForesight } from "./fleet-foresight.ts";
import { recorder } from "./fleet-recorder.ts";
import { explainJob, fleetSummary, othersWait } from "./fleet-view.ts";
import { linkEndsOf } from "./link-ends.ts";
import { openPatience } from "./patience.ts";
import { pendingNotes, type Told } from "./pending-notes.ts";
import {
  clusterQuery,
  configureUpdate,
  drainUpdate,
  explainQuery,
  fenceUpdate,
  FLEET_RULES,
  hostQuery,
  inboxSignal,
  hasLeaseQuery,
  linkEndsQuery,
  othersWaitQuery,
  ledgerQuery,
  shapeQuery,
  silenceTermsQuery,
  undrainUpdate,
  type FleetInput,
  type SweepInput,
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
/** The rules from which on a fleet audits, continues after an operator's change, and recovers. */
const CARING_RULES = 2;
/** The rules from which on it decides again when grants were refused. */
const RETRYING_RULES = 3;
/** The rules from which on it tells jobs whose patience is over. */
const PATIENT_RULES = 4;
/** The rules from which on it estimates starts now and then, to learn how good its estimates are. */
const FORESEEING_RULES = 5;
/** Pause before it does, so that a disagreement that lasts costs little. */
const REFUSED_RETRY_MS = 1_000;
/** After agents and jobs were asked what there is, nothing is granted for as long as their answers may take. */
const RECOVERY_QUIET_MS = 1_000;

const { decide } = proxyLocalActivities<Pick<FleetActivities, "decide">>({
  startToCloseTimeout: "5s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});
const { deliver } = proxyActivities<Pick<FleetActivities, "deliver">>({
  startToCloseTimeout: "30s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

const { audit, recover } = proxyActivities<Pick<FleetActivities, "audit" | "recover">>({
  startToCloseTimeout: "5m",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

const { foresee } = proxyActivities<Pick<FleetActivities, "foresee">>({
  startToCloseTimeout: "3m",
  heartbeatTimeout: "30s",
  // One that is lost is not missed: the next comes by its clock.
  retry: { maximumAttempts: 1 },
});

export async function fleet(input: FleetInput): Promise<never> {
  const isCaring = (input.rules ?? 1) >= CARING_RULES;
  const isRetrying = (input.rules ?? 1) >= RETRYING_RULES;
  const patience = (input.rules ?? 1) >= PATIENT_RULES ? openPatience(input.name) : undefined;
  const foresight = (input.rules ?? 1) >= FORESEEING_RULES ? openForesight(Date.now()) : undefined;
  let ledger = unpackLedger(input.ledger);
  let needsDecision = ledger.requests.size > 0 || mayAnyGrow(ledger);
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
  let hasPlace = isCaring;
  /** An operator has changed something that the input of the next run must know. */
  let isChangedByHand = false;
  /** Nothing is decided before: a lost ledger is being put together. */
  let quietUntilMs = input.isRecovering === true ? Infinity : 0;
  /** Looking for what a lost ledger knew: jobs that were started just before may not have been visible at first. */
  const recoverAtMs = [...(input.recoverAtMs ?? [])];
  /** What agents are held to may have changed: they are to report. The next run sees to it. */
  let isReportDue = input.isReportDue === true;
  /** Audits and recoveries that are under way. */
  let errands = 0;
  let isAuditing = false;
  let auditedAtMs = Date.now();
  let auditedUpTo = 0;
  let idleAtMs = Date.now();
  let changedAtMs = Date.now();
  const disowned: LeaseFact[] = [];
  /** Orders to give up leases that are to be sent; worked out once for each change of the leases. */
  let unsent: readonly EvictionOrder[] | undefined;
  /** Whether any gang is smaller than it would like to be; worked out as seldom. */
  let isGrowing: boolean | undefined;
  let isDeciding = false;
  /** Changes that came while a plan was being made. */
  const deferred: (() => void)[] = [];
  /** Losses that were told and sweeps that were started, since the last audit. */
  const cared = new Set<string>();

  const record = recorder();
  record?.began(input.ledger);
  const fold = (event: LedgerEvent): Applied => {
    record?.folded(event);
    const applied = apply(ledger, event);
    if (applied.ledger.leases !== ledger.leases) {
      changedAtMs = event.nowMs;
      unsent = undefined;
      isGrowing = undefined;
    }
    ledger = applied.ledger;
    if (ledger.leases.size === 0 && ledger.requests.size === 0) idleAtMs = event.nowMs;
    needsDecision ||= applied.needsDecision;
    disowned.push(...applied.disowned);
    return applied;
  };
  const later = (change: () => void): void => {
    if (isCaring && isDeciding) deferred.push(change);
    else change();
  };
  const foldByHand = (event: LedgerEvent): void =>
    later(() => {
      fold(event);
      isChangedByHand = isCaring;
      hasPlace ||= isCaring;
    });

  setHandler(inboxSignal, (batch) => {
    spend(4, batch);
    // A junk signal is one junk entry: `apply` puts it with the dead letters.
    for (const entry of Array.isArray(batch) ? batch : [batch]) inbox.push(entry);
  });
  setHandler(ledgerQuery, () => packLedger(ledger));
  setHandler(hostQuery, (host) => ledger.hosts.get(parseHostId(host))?.agent ?? null);
  setHandler(explainQuery, (id) => explainJob(ledger, id));
  const refuseUnknownHosts = (order: unknown): void => checkHosts(order, input.name, ledger.shape);
  setHandler(
    drainUpdate,
    ({ hosts, reason }) => {
      const ids = hosts.map(parseHostId);
      foldByHand({ kind: "drain", hosts: ids, reason: String(reason), nowMs: Date.now() });
      return ids;
    },
    { validator: refuseUnknownHosts },
  );
  setHandler(
    undrainUpdate,
    ({ hosts }) => {
      const ids = hosts.map(parseHostId);
      foldByHand({ kind: "undrain", hosts: ids, nowMs: Date.now() });
      return ids;
    },
    { validator: refuseUnknownHosts },
  );
  setHandler(
    fenceUpdate,
    ({ hosts }) => {
      const ids = hosts.map(parseHostId);
      foldByHand({ kind: "fence", hosts: ids, nowMs: Date.now() });
      return ids;
    },
    { validator: refuseUnknownHosts },
  );
  setHandler(silenceTermsQuery, (cluster) => silenceTermsOf(ledger.shape, cluster));
  setHandler(clusterQuery, (cluster) => clusterDescription(ledger, cluster));
  setHandler(shapeQuery, (names) => shapeOf(ledger.shape, Array.isArray(names) ? names : []));
  setHandler(linkEndsQuery, () => linkEndsOf(ledger));
  setHandler(othersWaitQuery, (id) => othersWait(ledger, id));
  setHandler(hasLeaseQuery, (lease) => ledger.leases.has(lease));
  setHandler(
    configureUpdate,
    ({ shape, detailsHash }) => {
      foldByHand({
        kind: "fleet-changed",
        shape,
        ...(typeof detailsHash === "string" && { detailsHash }),
        nowMs: Date.now(),
      });
      // What agents are held to may have changed.
      later(() => (isReportDue = isCaring));
    },
    {
      validator: (description) => {
        const problem = fleetShapeProblem((description as { shape?: unknown } | undefined)?.shape);
        if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, "BAD_INPUT");
      },
    },
  );

  for (;;) {
    setCurrentDetails(fleetSummary(input.name, ledger, quietUntilMs === Infinity));
    await untilWork();
    foresight?.looked(ledger, Date.now());
    if (inbox.length > 0) fold({ kind: "inbox", entries: inbox.splice(0), nowMs: Date.now() });
    if (nextClockAtMs() <= Date.now()) fold({ kind: "clock", nowMs: Date.now() });
    if ((patience?.nextJudgementAtMs(ledger) ?? Infinity) <= Date.now()) needsDecision = true;
    if (wakeAtMs !== undefined && wakeAtMs <= Date.now()) needsDecision = true;
    if (!mustContinue()) {
      if (!isAnyDue()) {
        needsDecision = false;
        wakeAtMs = undefined;
      }
      runErrands();
      const isCycle = needsDecision && quietUntilMs <= Date.now();
      const nowMs = Date.now();
      if (isCycle) await cycle(nowMs);
      post(nowMs);
      isDeciding = false;
      for (const change of deferred.splice(0)) change();
    } else {
      await condition(allHandlersFinished);
      if (inbox.length > 0) fold({ kind: "inbox", entries: inbox.splice(0), nowMs: Date.now() });
      await continueAsNew<typeof fleet>({
        name: input.name,
        rules: FLEET_RULES,
        ledger: packLedger(ledger),
        ...(recoverAtMs.length > 0 && { recoverAtMs }),
        ...(isReportDue && { isReportDue }),
        told: [...told].map(([id, { code, atMs }]) => [id, code, atMs] as const),
      });
    }
  }

  async function untilWork(): Promise<void> {
    const isWork = (): boolean =>
      inbox.length > 0 ||
      (needsDecision && quietUntilMs <= Date.now()) ||
      hasPlace ||
      hasPost() ||
      mustContinue();
    const postAtMs = Math.min(redeliverAtMs ?? Infinity, nextNoteAtMs());
    const dueAtMs = Math.min(
      wakeAtMs ?? Infinity,
      nextClockAtMs(),
      nextAuditAtMs(),
      foresight?.nextAtMs(ledger) ?? Infinity,
      needsDecision ? Infinity : (patience?.nextJudgementAtMs(ledger) ?? Infinity),
      recoverAtMs[0] ?? Infinity,
      needsDecision && quietUntilMs > Date.now() ? quietUntilMs : Infinity,
      deliveries >= MAX_DELIVERIES ? Infinity : Math.max(postAtMs, redeliverAtMs ?? 0),
    );
    if (dueAtMs === Infinity) await condition(isWork);
    else {
      spend(6, undefined);
      const ringsAtMs = Math.max(Date.now() + 1, dueAtMs);
      await condition(isWork, ringsAtMs - Date.now());
      patience?.rang(ringsAtMs, Date.now());
    }
  }

  /** Its clock stands still, so that the plan is applied alike whenever the answer is seen. */
  async function cycle(nowMs: number): Promise<void> {
    needsDecision = false;
    isDeciding = true;
    const plan = await decide(packLedger(ledger), nowMs);
    spend(4, plan);
    const { refusals } = fold({ kind: "plan", plan, nowMs });
    // No event follows on a refusal that none preceded: where decider and ledger disagree, as two versions of the code might.
    const retryAtMs = isRetrying && refusals.length > 0 ? nowMs + REFUSED_RETRY_MS : Infinity;
    const growsAtMs = nextGrowthAtMs(ledger, nowMs) ?? Infinity;
    patience?.judged(nowMs);
    const soonestMs = Math.min(growsAtMs, plan.wakeAtMs ?? Infinity, retryAtMs);
    wakeAtMs = soonestMs < Infinity ? soonestMs : undefined;
    // A full plan may have left some out.
    if (plan.items.length >= MAX_PLAN_ITEMS) needsDecision = true;
  }

  function runErrands(): void {
    if (nextAuditAtMs() <= Date.now()) void auditHolders();
    if ((foresight?.nextAtMs(ledger) ?? Infinity) <= Date.now()) void foreseeStarts();
    if ((recoverAtMs[0] ?? Infinity) <= Date.now()) {
      recoverAtMs.shift();
      void askAround(true);
    } else if (isReportDue) void askAround(false);
  }

  function nextAuditAtMs(): number {
    const isIdle = ledger.leases.size === 0 && ledger.requests.size === 0;
    if (!isCaring || isAuditing || isIdle) return Infinity;
    return Math.max(auditedAtMs, idleAtMs) + auditPeriodMs(ledger, auditedAtMs - changedAtMs);
  }

  async function auditHolders(): Promise<void> {
    const { holders, asked } = auditOrder(ledger, auditedUpTo);
    auditedUpTo += holders.length;
    isAuditing = true;
    const report = await errand([holders, asked], () => audit({ holders, asked }));
    later(() => {
      const closed = report?.closed ?? [];
      if (closed.length > 0) fold({ kind: "audited", closed, nowMs: Date.now() });
      isAuditing = false;
      auditedAtMs = Date.now();
      // Whoever has not acted on what it was told is told again.
      cared.clear();
      hasPlace = true;
    });
  }

  async function foreseeStarts(): Promise<void> {
    foresight?.asks();
    const found = await errand([], () => foresee({ fleet: input.name }));
    later(() => {
      const nowMs = Date.now();
      if (found !== undefined && found.estimates.length > 0)
        fold({ kind: "foreseen", ...found, nowMs });
      foresight?.asked(nowMs);
      hasPlace = true;
    });
  }

  /** Every presence is to report and, for a lost ledger, every open job to assert what it has. */
  async function askAround(isLedgerLost: boolean): Promise<void> {
    isReportDue = false;
    const clusters = ledger.shape.clusters.map(({ id }) => id);
    await errand(clusters, () => recover({ fleet: input.name, clusters, isLedgerLost }));
    later(() => {
      if (quietUntilMs === Infinity) {
        quietUntilMs = Date.now() + RECOVERY_QUIET_MS;
        patience?.gap(workflowInfo().startTime.getTime(), quietUntilMs);
      }
      hasPlace = true;
    });
  }

  async function errand<Answer>(
    carried: unknown,
    run: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    spend(8, carried);
    errands += 1;
    // It comes again by its clock; what failed for good is in the history for people to read.
    const answer = await run().catch(() => undefined);
    later(() => (errands -= 1));
    return answer;
  }

  function waitingGrants(): LeaseId[] {
    return [...ledger.outbox.keys()].filter((id) => !onTheWay.has(id));
  }

  function hasPost(): boolean {
    const isBackingOff = redeliverAtMs !== undefined && redeliverAtMs > Date.now();
    if (deliveries >= MAX_DELIVERIES || isBackingOff) return false;
    return waitingGrants().length > 0 || waitingOrders().length > 0;
  }

  /** Whether a cycle could come to anything. */
  function isAnyDue(): boolean {
    return ledger.requests.size > 0 || (isGrowing ??= mayAnyGrow(ledger));
  }

  function waitingOrders(): readonly EvictionOrder[] {
    return (unsent ??= unsentOrders(ledger)).filter(({ order }) => !onTheWay.has(order.lease));
  }

  /** When a clock alone changes the ledger. */
  function nextClockAtMs(): number {
    return Math.min(nextFenceAtMs(ledger) ?? Infinity, nextReturnAtMs(ledger) ?? Infinity);
  }

  function nextNoteAtMs(): number {
    // What is still to be decided may yet place them.
    const wordAtMs = needsDecision ? Infinity : (patience?.nextWordAtMs(ledger) ?? Infinity);
    return Math.min(pendingNotes(ledger, told, Date.now()).nextAtMs, wordAtMs);
  }

  /** Sends what is ready to be sent, without waiting for it. */
  function post(nowMs: number): void {
    hasPlace = false;
    if (deliveries >= MAX_DELIVERIES) return;
    if (redeliverAtMs !== undefined && redeliverAtMs > nowMs) return;
    redeliverAtMs = undefined;
    const grants = waitingGrants().slice(0, MAX_POST).flatMap(deliveryOf);
    const over = needsDecision ? [] : (patience?.take(ledger, MAX_POST, nowMs) ?? []);
    const isOver = new Set(over.map(({ jobId }) => jobId));
    const plain = pendingNotes(ledger, told, nowMs).notes.filter(({ jobId }) => !isOver.has(jobId));
    const notes = [...over, ...plain.slice(0, MAX_POST)];
    const losses = lossesToTell();
    const sweeps = sweepsToStart();
    const orders = waitingOrders().slice(0, MAX_POST);
    if (grants.length + notes.length + losses.length + sweeps.length + orders.length === 0) return;
    for (const { lease } of grants) onTheWay.add(lease.id);
    for (const { order } of orders) onTheWay.add(order.lease);
    for (const { jobId, reason } of plain.slice(0, MAX_POST))
      told.set(jobId, { code: reason.code, atMs: nowMs });
    for (const id of told.keys()) if (!ledger.requests.has(id)) told.delete(id);
    deliveries += 1;
    spend(6, [grants, notes, losses, sweeps, orders]);
    void send({
      grants,
      pending: notes,
      ...(losses.length > 0 && { losses }),
      ...(sweeps.length > 0 && { sweeps }),
      ...(orders.length > 0 && { evictions: orders }),
    });
  }

  async function send(mail: Post): Promise<void> {
    const { grants, evictions: orders = [] } = mail;
    // A delivery that gave up has reached nobody, as far as anybody knows: what was in it goes again after a pause.
    const report = await deliver(mail).catch((): DeliveryReport => ({ accepted: [], gone: [] }));
    const { accepted, gone, evictions: { sent, gone: left } = { sent: [], gone: [] } } = report;
    later(() => {
      if (sent.length + left.length > 0)
        fold({ kind: "evictions-sent", sent, gone: left, nowMs: Date.now() });
      if (accepted.length + gone.length > 0 || grants.length === 0)
        fold({ kind: "delivered", accepted, gone, nowMs: Date.now() });
      const arrived = accepted.length + gone.length + sent.length + left.length;
      if (arrived < grants.length + orders.length) redeliverAtMs = Date.now() + REDELIVER_MS;
      for (const { lease } of grants) onTheWay.delete(lease.id);
      for (const { order } of orders) onTheWay.delete(order.lease);
      deliveries -= 1;
      hasPlace = true;
    });
  }

  function lossesToTell(): readonly Loss[] {
    if (!isCaring) return [];
    const claimed = disowned.splice(0).map(({ jobId, runId, id, gpus }) => ({
      jobId,
      runId,
      lease: id,
      hosts: gpus.map(({ host }) => host),
    }));
    const lost = [...lossesOf(ledger), ...revokedLosses(ledger)];
    return [...claimed, ...onlyNew(lost, ({ lease, hosts }) => [lease, ...hosts])];
  }

  function sweepsToStart(): readonly SweepInput[] {
    if (!isCaring) return [];
    return onlyNew(sweepsOf(input.name, ledger), ({ lease }) => ["sweep", lease]);
  }

  function onlyNew<Item>(items: readonly Item[], keyOf: (item: Item) => readonly string[]): Item[] {
    return items.slice(0, MAX_POST).filter((item) => {
      const key = keyOf(item).join(" ");
      return !cared.has(key) && cared.add(key);
    });
  }

  function deliveryOf(id: LeaseId): Delivery[] {
    const lease = ledger.leases.get(id);
    const grant = ledger.outbox.get(id);
    if (lease === undefined || grant === undefined) return [];
    const agents = lease.gpus.flatMap(({ host }) => {
      const agent = ledger.hosts.get(host)?.agent;
      if (agent === undefined) return [];
      const { silenceMs } = clusterNamed(ledger.shape, clusterOf(host)) ?? {};
      return [{ host, agent, ...(silenceMs !== undefined && { silenceMs }) }];
    });
    // What decisions read of it the job knows better.
    const { terms: _terms, ...slim } = lease;
    return [{ lease: slim, agents, ...grant }];
  }

  /** Judged by what was done, not by the history's length as the server tells it: that may read otherwise on replay. */
  function mustContinue(): boolean {
    // What is under way goes on in this run; it is short.
    if (isChangedByHand && deliveries === 0 && errands === 0 && quietUntilMs < Infinity)
      return true;
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
}
