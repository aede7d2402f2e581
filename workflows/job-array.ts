/**
 * @file The life of a job array: one request for many slots, a lease for each host that is granted, batches of tasks on each lease.
 *
 * A lease runs one batch at a time (gang-run.ts) and the next one as soon as that is over; it is given back when no task waits for
 * it. Tasks that failed go back to the line while the job's retry rule allows; what hosts refused or lost is not charged to them.
 * A hold lets what runs run, and hands out nothing more. A lease that is wanted for others is stopped and given back, and its tasks wait again. History: six events a batch (batch-size.ts), about ten for a change of
 * the request and for the end of a lease; an array is never continued as new, because its leases are its run's (docs/decisions/0011).
 */

import {
  ApplicationFailure,
  condition,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertMemo,
} from "@temporalio/workflow";
import type { JobActivities, Told } from "../activities/control-contract.ts";
import { clusterOf, type HostId, type LeaseId } from "../domain/ids.ts";
import type { ArrayRule } from "../domain/job.ts";
import type { Lease } from "../domain/lease.ts";
import { parseTaskRanges } from "../domain/task-ranges.ts";
import { createAsking } from "./array-asking.ts";
import { arrayResult, arrayState, arraySummary, type ArrayJob } from "./array-view.ts";
import { settleBatch } from "./batch-settlement.ts";
import { batchSize } from "./batch-size.ts";
import type { GangEnd } from "./gang-end.ts";
import { runGang, type StopWish } from "./gang-run.ts";
import { hostsOf, placeOf, stopTasks, type HeldLease } from "./held-lease.ts";
import { isGrant } from "./job-view.ts";
import {
  ARRAY_MEMO,
  assertSignal,
  cancelTasksUpdate,
  fencedSignal,
  grantsSignal,
  holdUpdate,
  jobViewQuery,
  MAX_TASK_PAGE,
  pendingSignal,
  preemptSignal,
  releaseUpdate,
  retryTasksUpdate,
  tasksQuery,
  type ArrayMemo,
  type Grant,
  type JobResult,
  type JobState,
  type JobView,
  type TaskOrder,
  type TaskOrderAnswer,
} from "./messages.ts";
import { gaveWay, isPreemptOrder } from "./preemption.ts";
import { createTaskTable } from "./task-table.ts";

/** After a host refused or was lost its tasks wait, longer each time in a row. */
const LOST_PAUSE_MS = 1_000;
const LOST_PAUSE_MAX_MS = 60_000;
/** Changes of the memo in the life of an array, about; each is an event. */
const MEMO_STEPS = 20;
const SHOWN_FAILURES = 5;

/** A lease that is older is given back between two batches if others wait: they are served first, then the array again. */
const LEASE_TERM_MS = 60_000;

/** No local activities: several at a time end in another order on replay (docs/decisions/0014). */
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
/** A fleet that does not answer has nobody waiting, as far as a batch is concerned. */
const { othersWait } = proxyActivities<Pick<JobActivities, "othersWait">>({
  startToCloseTimeout: "5s",
  retry: { maximumAttempts: 1 },
});

export async function runJobArray(
  of: ArrayJob,
  rule: ArrayRule,
  entered: Told,
): Promise<JobResult> {
  const { jobId, runId, fleet, fleetId, spec, submittedAtMs, wish } = of;
  const table = createTaskTable(rule.count);
  const leases = new Map<LeaseId, HeldLease>();
  /** Every lease that ever came: a second copy of a grant starts nothing. */
  const seen = new Set<LeaseId>();
  const hosts = new Set<HostId>();
  /** Running tasks that are to end, and not to be tried again. */
  const unwanted = new Set<number>();
  /** Hosts that have not confirmed the end of a lease. */
  const doubtful = new Set<HostId>();
  const asking = createAsking(of, {
    entered,
    first: rule.parallel,
    leases,
    wanted,
    isOver: () => isOver,
    show,
  });
  if (of.isAsked) asking.again();
  let isHeld = of.isHeld;
  let isOver = false;
  let final: JobState | undefined;
  /** Grants that are being served or given back. */
  let busy = 0;
  let batches = 0;
  let lostInARow = 0;
  const ran = { tasks: 0, ms: 0 };
  let memoAt = -1;
  let firstGrantAtMs: number | undefined;
  /** Leases that were given up for other jobs. */
  let preemptions = 0;
  let bug: unknown;

  setHandler(jobViewQuery, view);
  setHandler(tasksQuery, ({ from, count, state }) => ({
    counts: table.counts(),
    tasks: table.page({
      from: Math.max(0, Math.floor(from)),
      count: Math.min(MAX_TASK_PAGE, count),
      ...(state !== undefined && { state }),
    }),
  }));
  setHandler(grantsSignal, (offers) => {
    if (Array.isArray(offers)) for (const offer of offers as readonly Grant[]) arrive(offer);
  });
  setHandler(fencedSignal, (loss) => {
    const held = leases.get(loss?.lease);
    if (held === undefined || !Array.isArray(loss.hosts)) return;
    for (const host of loss.hosts) held.fenced.add(host);
  });
  setHandler(preemptSignal, (order) => {
    const held = isPreemptOrder(order) ? leases.get(order.lease) : undefined;
    if (held === undefined || held.preempt !== undefined) return;
    held.preempt = order;
    preemptions += 1;
    show();
  });
  setHandler(assertSignal, asking.again);
  setHandler(pendingSignal, asking.note);
  const hold = (next: boolean) => (): JobState => {
    isHeld = next;
    asking.heed();
    show();
    return stateNow();
  };
  setHandler(holdUpdate, hold(true), { validator: insistOpen });
  setHandler(releaseUpdate, hold(false), { validator: insistOpen });
  setHandler(cancelTasksUpdate, cancelTasks, { validator: readOrder });
  setHandler(retryTasksUpdate, retryTasks, { validator: readOrder });

  memoize();
  show();
  const talk = asking.keep().catch((error: unknown) => {
    bug ??= error;
  });
  await condition(
    () => bug !== undefined || (busy === 0 && (wish.reason !== undefined || hasEnded())),
  );
  isOver = true;
  await talk;
  if (wish.reason !== undefined) {
    for (let task = 0; task < rule.count; task += 1) {
      const state = table.stateOf(task);
      if (state === "waiting" || state === "running") table.end(task, "cancelled");
    }
  }
  const unconfirmedHosts = [...doubtful, ...[...leases.values()].flatMap(hostsOf)];
  await tellFleet(fleetId, { kind: "end", jobId, runId, seq: asking.seq(), unconfirmedHosts });
  if (bug !== undefined) throw bug;
  const grantedAtMs = firstGrantAtMs ?? Date.now();
  const end = {
    counts: table.counts(),
    failed: table.firstFailed(SHOWN_FAILURES),
    hosts: [...hosts],
    queuedMs: grantedAtMs - submittedAtMs,
    ranMs: Date.now() - grantedAtMs,
  };
  final = arrayState(of, end, rule.count);
  memoize();
  show();
  of.mark(final, []);
  return arrayResult(of, end, rule.count);

  function stateNow(): JobState {
    if (final !== undefined) return final;
    if (wish.reason !== undefined) return "stopping";
    return leases.size > 0 ? "running" : isHeld ? "held" : "pending";
  }

  function view(): JobView {
    const counts = table.counts();
    const pending = asking.pending();
    return {
      jobId,
      fleet,
      spec,
      state: stateNow(),
      ...(pending !== undefined && { pending }),
      submittedAtMs,
      attempts: [],
      array: {
        ...rule,
        counts,
        slots: liveSlots(),
        ...(preemptions > 0 && { preemptions }),
        leases: [...leases.values()].map(({ grant: { lease }, slots, tasks, preempt }) => ({
          leaseId: lease.id,
          slots,
          gpus: lease.gpus,
          grantedAtMs: lease.grantedAtMs,
          tasks: tasks.length,
          ...(preempt !== undefined && { preemptedFor: preempt.forJob }),
        })),
        firstFailed: counts.failed > 0 ? table.firstFailed(SHOWN_FAILURES) : [],
      },
    };
  }

  function show(): void {
    setCurrentDetails(arraySummary(view()));
  }

  function memoize(): void {
    const counts = table.counts();
    const ended = counts.completed + counts.failed + counts.cancelled;
    if (memoAt >= 0 && final === undefined && ended - memoAt < rule.count / MEMO_STEPS) return;
    memoAt = ended;
    const memo: ArrayMemo = { count: rule.count, ...counts };
    upsertMemo({ [ARRAY_MEMO]: memo });
  }

  function liveSlots(): number {
    return [...leases.values()].reduce((sum, { slots }) => sum + slots, 0);
  }

  function hasEnded(): boolean {
    const { waiting, running } = table.counts();
    return waiting + running === 0;
  }

  /** Slots beyond those at hand that would have work now. */
  function wanted(): number {
    if (wish.reason !== undefined || isHeld) return 0;
    return Math.max(0, Math.min(rule.parallel - liveSlots(), table.available()));
  }

  function arrive(offer: Grant | undefined): void {
    if (!isGrant(offer) || seen.has(offer.lease.id) || isOver) return;
    const { lease } = offer;
    seen.add(lease.id);
    asking.granted(offer);
    const slots = Math.min(lease.slots ?? 1, rule.parallel - liveSlots());
    const isOurs = lease.runId === runId && slots > 0 && wanted() > 0;
    busy += 1;
    void (isOurs ? serve(offer, slots) : refuse(lease))
      .catch((error: unknown) => {
        bug ??= error;
      })
      .finally(() => {
        busy -= 1;
      });
  }

  /** A grant that is not needed any more. One that answers a request long over is the request's last. */
  async function refuse({ id, seq: answered }: Lease): Promise<void> {
    const isStray =
      answered < asking.seq() && [...leases.values()].every(({ grant }) => grant.seq > answered);
    await tellFleet(fleetId, {
      kind: "end",
      jobId,
      runId,
      seq: answered,
      ...(!isStray && { lease: id }),
      unconfirmedHosts: isStray ? [...doubtful] : [],
    });
  }

  async function serve(grant: Grant, slots: number): Promise<void> {
    const { lease } = grant;
    const held: HeldLease = { grant, slots, fenced: new Set(), batchSeq: 0, tasks: [] };
    leases.set(lease.id, held);
    for (const host of hostsOf(held)) hosts.add(host);
    if (firstGrantAtMs === undefined) {
      firstGrantAtMs = lease.grantedAtMs;
      of.mark("running", [...new Set(lease.gpus.map(({ host }) => clusterOf(host)))]);
    }
    const wishHere: StopWish = {
      get reason() {
        return wish.reason;
      },
      set reason(_of) {
        // Set for the whole array, never for one lease.
      },
      get preempt() {
        return held.preempt;
      },
      fenced: held.fenced,
    };
    const isWanted = (): boolean =>
      wish.reason === undefined && !isHeld && held.fenced.size === 0 && held.preempt === undefined;
    let unconfirmedHosts: readonly HostId[] = [];
    while (isWanted()) {
      const tasks = table.take(sizeOf(held), placeOf(held));
      if (tasks.length === 0) break;
      held.tasks = tasks;
      held.batchSeq += 1;
      batches += 1;
      show();
      const end = await runGang(runOf(held), wishHere, show);
      held.tasks = [];
      unconfirmedHosts = end.unconfirmedHosts;
      settle(tasks, end, held.preempt !== undefined && gaveWay(end));
      memoize();
      // A lease that was stopped, or whose host refused or was lost, is no good for another batch.
      if (end.end !== "completed" || table.available() === 0) break;
      const isOld = Date.now() - lease.grantedAtMs > LEASE_TERM_MS;
      if (isOld && (await othersWait(fleetId, jobId).catch(() => false))) break;
    }
    leases.delete(lease.id);
    show();
    for (const host of unconfirmedHosts) doubtful.add(host);
    await tellFleet(fleetId, {
      kind: "end",
      jobId,
      runId,
      seq: lease.seq,
      lease: lease.id,
      unconfirmedHosts,
    });
  }

  function runOf(held: HeldLease): Parameters<typeof runGang>[0] {
    const { grant, batchSeq, tasks, slots } = held;
    return {
      jobId,
      rules: of.rules,
      workflowRunId: runId,
      fleetWorkflowId: fleetId,
      spec,
      grant,
      attempt: 1,
      taskBatch: {
        seq: batchSeq,
        tasks,
        slots: Math.min(slots, tasks.length),
        gpusPerTask: spec.gang.gpus,
        count: rule.count,
      },
      onAgent: (host, agent) => {
        const agents = grant.agents.map((known) =>
          known.host === host ? { ...known, agent } : known,
        );
        held.grant = { ...grant, agents };
      },
    };
  }

  /** A task that spans hosts is alone in its batch. */
  function sizeOf({ grant: { lease }, slots }: HeldLease): number {
    const waiting = table.available();
    if (lease.gpus.length > 1) return Math.min(1, waiting);
    return batchSize({
      slots,
      allSlots: liveSlots(),
      waiting,
      ...(ran.tasks > 0 && { meanTaskMs: ran.ms / ran.tasks }),
      batches,
    });
  }

  /** Failed tasks pause as the retry rule says, lost ones longer each time in a row. */
  function settle(tasks: readonly number[], end: GangEnd, isPreempted: boolean): void {
    const { failed, lost } = settleBatch(table, tasks, {
      end,
      unwanted,
      ran,
      attempts: spec.retry.attempts,
      isGivenUp: wish.reason !== undefined || isPreempted,
    });
    if (end.cause?.code === "HOST_REFUSED") asking.avoid(end.cause.host);
    lostInARow = lost.length > 0 ? lostInARow + 1 : 0;
    resumeAfter(failed, spec.retry.backoffMs);
    resumeAfter(lost, Math.min(LOST_PAUSE_MS * 2 ** (lostInARow - 1), LOST_PAUSE_MAX_MS));
  }

  function resumeAfter(tasks: readonly number[], pauseMs: number): void {
    if (tasks.length === 0) return;
    if (pauseMs <= 0) table.resume(tasks);
    else void sleep(pauseMs).then(() => table.resume(tasks));
  }

  function insistOpen(): void {
    if (!isOver && wish.reason === undefined) return;
    throw ApplicationFailure.nonRetryable(`job ${jobId} is ending`, "NOT_ALLOWED");
  }

  function readOrder(order: TaskOrder): void {
    insistOpen();
    const read = parseTaskRanges(String(order?.tasks), rule.count);
    if (read.kind === "read") return;
    throw ApplicationFailure.nonRetryable(
      `tasks of ${jobId}: ${read.message}; ${read.remedy}`,
      "BAD_INPUT",
    );
  }

  function tasksOf({ tasks }: TaskOrder): readonly number[] {
    const read = parseTaskRanges(tasks, rule.count);
    return read.kind === "read" ? read.value : [];
  }

  function cancelTasks(order: TaskOrder): TaskOrderAnswer {
    const named = tasksOf(order);
    const running = new Set(named.filter((task) => table.stateOf(task) === "running"));
    const waiting = named.filter((task) => table.stateOf(task) === "waiting");
    for (const task of running) unwanted.add(task);
    for (const task of waiting) table.end(task, "cancelled");
    for (const held of leases.values()) {
      const theirs = held.tasks.filter((task) => running.has(task));
      if (theirs.length > 0) void stopTasks(of, held, theirs);
    }
    asking.heed();
    memoize();
    show();
    const skipped = named.length - running.size - waiting.length;
    return { done: waiting.length, stopping: running.size, skipped };
  }

  function retryTasks(order: TaskOrder): TaskOrderAnswer {
    const named = tasksOf(order);
    const ended = named.filter((task) => !["waiting", "running"].includes(table.stateOf(task)));
    for (const task of ended) {
      table.forgive(task);
      table.giveBack(task);
    }
    asking.heed();
    show();
    return { done: ended.length, stopping: 0, skipped: named.length - ended.length };
  }
}
