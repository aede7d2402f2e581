/**
 * @file The life of one job: enter → wait for a grant → run the gang → end, again while its retry rule allows.
 *
 * Whatever ends it, its last word to the fleet is `end(jobId, runId, ≤ seq)`. Cancellation, the deadline and an order to give up
 * the GPUs set one flag that every wait looks at, so nothing is interrupted half-way. A run that was preempted is followed by a new
 * request with the old seniority; it goes on from its newest checkpoint and is charged to nobody (preemption.ts).
 * History of a one-host job that runs at once: 19 events; each further host costs at most 6 (docs/decisions/0003).
 */

import {
  ApplicationFailure,
  CancellationScope,
  condition,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  upsertMemo,
  upsertSearchAttributes,
  workflowInfo,
} from "@temporalio/workflow";
import type { JobActivities, Told } from "../activities/control-contract.ts";
import { clusterOf, runId as toRunId, type HostId, type LeaseId } from "../domain/ids.ts";
import type { JobSpec } from "../domain/job.ts";
import { scheduledPart } from "../domain/gang-request.ts";
import { gpuCountOf, type GangRequest } from "../domain/lease.ts";
import type { Outfit, OutfitPart } from "../domain/outfit.ts";
import { ms } from "../domain/units.ts";
import type { GangEnd } from "./gang-end.ts";
import { runGang, type StopWish } from "./gang-run.ts";
import { gaveWay, isPreemptOrder, preemptionOf, settledPreemption } from "./preemption.ts";
import { judgeRun, type RunAccount } from "./run-verdict.ts";
import { openCells } from "./cells.ts";
import { createJobWords } from "./job-words.ts";
import { runJobArray } from "./job-array.ts";
import { outfitRun } from "./run-outfit.ts";
import { jobFailure, jobResult } from "./job-end.ts";
import { jobSummary } from "./job-summary.ts";
import {
  attemptView,
  CLASS,
  isGrant,
  CLUSTER,
  failure,
  FLEET,
  GPUS,
  HOME,
  noFleet,
  readId,
  STATE,
  TENANT,
} from "./job-view.ts";
import {
  CELL_MEMO,
  DEFAULT_FLEET,
  assertSignal,
  fencedSignal,
  fleetWorkflowId,
  grantSignal,
  holdUpdate,
  jobViewQuery,
  pendingSignal,
  preemptSignal,
  releaseUpdate,
  type AttemptView,
  type CellMemo,
  type Grant,
  type JobOptions,
  type JobResult,
  type JobState,
  type JobView,
  type WaitNote,
} from "./messages.ts";

/** Pause before a fleet that does not answer is asked again. */
const NO_FLEET_PAUSE_MS = 5_000;
const NO_FLEET_PAUSE_MAX_MS = 600_000;
/** The rules from which on a job may have several fleets. */
const CELL_RULES = 3;
/** A job may change its search attributes three times; the last change is kept for its end. */
const MAX_UPSERTS = 3;

const { admit } = proxyLocalActivities<Pick<JobActivities, "admit">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

export async function job(file: unknown, options?: JobOptions | null): Promise<JobResult> {
  const { workflowId, runId, startTime, typedSearchAttributes } = workflowInfo();
  const home = typeof options?.fleet === "string" ? options.fleet : DEFAULT_FLEET;
  const id = readId(workflowId);
  const run = toRunId(runId);
  const submittedAtMs = startTime.getTime();

  let state: JobState = "pending";
  let spec: JobSpec | undefined;
  let seq = 1;
  let grant: Grant | undefined;
  let isHeld = false;
  /** Released before it was even read: the file's own hold is over. */
  let isReleased = false;
  let pending: JobView["pending"];
  const attempts: AttemptView[] = [];
  const avoidHosts: HostId[] = [];
  const wish: StopWish = { reason: undefined, fenced: new Set() };
  let cancellation: unknown;
  let upserts = 0;
  let rules = 1;
  let cells = openCells(home);
  let outfits: readonly OutfitPart[] = [];
  /** A part of its GPUs was taken, and it goes on with the rest: that is set apart for it, so the smaller gang will do at once. */
  let isShrunk = false;

  const words = createJobWords({
    jobId: id,
    runId: run,
    cells: () => cells,
    wish,
    seq: () => seq,
    advance: () => {
      seq += 1;
      grant = undefined;
    },
    grant: () => grant,
    mayAnswer: () => {
      // An array answers for itself.
      if (spec === undefined || spec.array !== undefined) return "not-yet";
      return isHeld || state === "completed" || state === "failed" ? "never" : "yes";
    },
    request: () =>
      spec === undefined || state !== "pending" ? undefined : requestOf(spec, Date.now()),
  });
  const fleetId = (): string => fleetWorkflowId(cells.here());

  const view = (): JobView => {
    const ring = cells.view();
    return {
      jobId: id,
      fleet: cells.here(),
      ...(ring !== undefined && { cells: ring }),
      ...(spec !== undefined && { spec }),
      state,
      ...(pending !== undefined && { pending }),
      submittedAtMs,
      attempts,
    };
  };
  const show = (): void => setCurrentDetails(jobSummary(view()));
  const enter = (next: JobState): void => {
    state = next;
    show();
  };

  setHandler(jobViewQuery, view);
  setHandler(grantSignal, (offer: Grant | undefined) => {
    if (!isGrant(offer)) return;
    if (offer.seq === seq && grant === undefined) grant = offer;
    else if (offer.seq < seq) words.stray(offer.seq);
  });
  setHandler(fencedSignal, (loss) => {
    if (loss?.lease !== grant?.lease.id || !Array.isArray(loss?.hosts)) return;
    for (const host of loss.hosts) wish.fenced.add(host);
  });
  setHandler(preemptSignal, (order) => {
    // Of a lease that is over, or said again: there is nothing to do.
    if (!isPreemptOrder(order) || order.lease !== grant?.lease.id) return;
    wish.preempt ??= order;
    note(order.lease);
  });
  setHandler(assertSignal, words.ask);
  setHandler(pendingSignal, (note: WaitNote | undefined) => {
    if (note?.seq !== seq || grant !== undefined) return;
    pending = note.reason;
    show();
  });
  setHandler(
    holdUpdate,
    (): JobState => {
      isHeld = true;
      isReleased = false;
      return "held";
    },
    {
      validator: () => {
        if (grant !== undefined || (state !== "pending" && state !== "held")) {
          throw ApplicationFailure.nonRetryable(
            `job ${id} is ${state}; only a waiting job can be held. Cancel it instead.`,
            "NOT_ALLOWED",
          );
        }
      },
    },
  );
  setHandler(releaseUpdate, (): JobState => {
    isHeld = false;
    isReleased = true;
    return state === "held" ? "pending" : state;
  });
  CancellationScope.current().cancelRequested.catch((error: unknown) => {
    cancellation = error;
    wish.reason ??= "cancelled";
  });

  /** The changes: on entering or being held, on running, at the end; one that does not fit is left out, never the last. */
  const mark = (next: JobState, clusters: readonly string[]): void => {
    const mostBefore = next === "held" ? 0 : next === "running" ? 1 : MAX_UPSERTS;
    if (upserts > mostBefore) return;
    upserts += 1;
    upsertSearchAttributes([
      { key: STATE, value: next },
      ...(clusters.length > 0 ? [{ key: CLUSTER, value: [...clusters] }] : []),
    ]);
  };

  return CancellationScope.nonCancellable(async () => {
    show();
    void words.returnStrays();
    void words.answerFleet();
    const admission = await admit(file, {
      fleetWorkflowId: fleetId(),
      jobId: id,
      runId: run,
      submittedAtMs,
      nowMs: Date.now(),
    });
    if (admission.kind === "refused") {
      enter("failed");
      // A client that knows nothing of fleets has not named one, and what is in no fleet is in no list.
      upsertSearchAttributes([
        { key: STATE, value: "failed" },
        { key: FLEET, value: home },
      ]);
      throw failure(admission.code, admission.message, { attempts: 0 });
    }
    spec = admission.spec;
    isHeld ||= spec.isHeld && !isReleased;
    if (typedSearchAttributes.get(STATE) === undefined) {
      upserts += 1;
      upsertSearchAttributes([
        { key: STATE, value: isHeld ? "held" : "pending" },
        { key: FLEET, value: home },
        { key: CLASS, value: spec.class },
        { key: TENANT, value: spec.tenant },
        { key: GPUS, value: spec.gang.gpus },
      ]);
    }
    if (spec.deadlineMs !== undefined) {
      void sleep(Math.max(1, submittedAtMs + spec.deadlineMs - Date.now())).then(
        () => (wish.reason ??= "deadline"),
      );
    }

    if (spec.array !== undefined) {
      return runJobArray(
        {
          rules: admission.rules,
          jobId: id,
          runId: run,
          fleet: home,
          fleetId: fleetId(),
          spec,
          submittedAtMs,
          isHeld,
          isAsked: words.isAsked(),
          wish,
          mark,
          cancellation: () => cancellation,
        },
        spec.array,
        admission.told,
      );
    }

    rules = admission.rules;
    outfits = admission.outfits ?? [];
    if (rules >= CELL_RULES) cells = openCells(home, spec.cells);
    let told: Told | undefined = admission.told;
    let account: RunAccount = { charged: 0, uncharged: 0 };
    for (;;) {
      const requestedAtMs = await untilGranted(spec, told);
      told = undefined;
      // A grant and a wish to stop may come together: the wish goes first, nothing has started.
      if (grant === undefined || wish.reason !== undefined) return finish(await endWaiting(), spec);
      const end = await attempt(spec, grant, requestedAtMs).catch(async (error: unknown) => {
        // A bug of ours must not keep GPUs: they are given back, to be confirmed free by their hosts.
        const unconfirmedHosts = grant?.lease.gpus.map(({ host }) => host) ?? [];
        await words.tell({ kind: "end", jobId: id, runId: run, seq, unconfirmedHosts });
        throw error;
      });
      await words.tell({
        kind: "end",
        jobId: id,
        runId: run,
        seq,
        unconfirmedHosts: end.unconfirmedHosts,
      });
      if (end.end === "completed" || wish.reason !== undefined) return finish(end, spec);
      const { preempt } = wish;
      const isPreempted = preempt !== undefined && gaveWay(end);
      const verdict = isPreempted
        ? ({ kind: "again", backoffMs: 0, account } as const)
        : judgeRun(end.cause?.code ?? "STOPPED", account, spec.retry);
      if (verdict.kind === "final") return finish(end, spec);
      account = verdict.account;
      if (end.cause?.code === "HOST_REFUSED") avoidHosts.push(end.cause.host);
      seq += 1;
      grant = undefined;
      isShrunk = isPreempted && preempt.keep !== undefined;
      wish.preempt = undefined;
      wish.fenced.clear();
      pending = undefined;
      enter("pending");
      if (!isPreempted)
        await condition(() => wish.reason !== undefined, Math.max(1, verdict.backoffMs));
    }
  });

  /** Waits with a request at the fleet, or held without one, until there is a grant or a wish to stop. */
  async function untilGranted(of: JobSpec, entered: Told | undefined): Promise<number> {
    let told = entered;
    let requestedAtMs = Date.now();
    let pauseMs = NO_FLEET_PAUSE_MS;
    const isLeft = (): boolean => !isCornered() && cells.isLeft(pending);
    while (grant === undefined && wish.reason === undefined) {
      if (isHeld) {
        if (told?.kind === "told") {
          // The order to hold is only kept once this task is: what the fleet is told must not go before it.
          await sleep(1);
          await words.withdraw();
        }
        told = undefined;
        pending = undefined;
        enter("held");
        mark("held", []);
        await condition(() => !isHeld || wish.reason !== undefined);
        enter("pending");
        continue;
      }
      if (told === undefined || told.kind !== "told") {
        if (told?.kind === "no-fleet") {
          pending = noFleet(cells.here(), told.message);
          show();
          if (!isLeft()) {
            const patienceMs = cells.patienceMs();
            await condition(() => wish.reason !== undefined || isHeld, patienceMs ?? pauseMs);
            pauseMs = Math.min(pauseMs * 2, NO_FLEET_PAUSE_MAX_MS);
          }
          if (wish.reason !== undefined || isHeld) {
            told = undefined;
            continue;
          }
          if (cells.patienceMs() !== undefined) await moveOn();
        }
        requestedAtMs = Date.now();
        told = await words.tell({ kind: "request", request: requestOf(of, requestedAtMs) });
        continue;
      }
      await condition(
        () =>
          grant !== undefined || wish.reason !== undefined || isHeld || isCornered() || isLeft(),
      );
      if (grant === undefined && isCornered()) {
        // Without the hosts that refused there is nowhere to go: what refused once is asked again.
        avoidHosts.length = 0;
        pending = undefined;
        await words.withdraw();
        told = undefined;
      } else if (grant === undefined && wish.reason === undefined && !isHeld && isLeft()) {
        await moveOn();
        told = undefined;
      }
    }
    return requestedAtMs;
  }

  /** Leaves this fleet for the next one, once it has said that it holds nothing of the job. */
  async function moveOn(): Promise<void> {
    const why = pending;
    if (!(await words.leave())) return;
    const { from, to, code } = cells.move(why, Date.now());
    avoidHosts.length = 0;
    pending = undefined;
    // Beside the three changes of a job: without them a fleet that loses its ledger would not find it.
    upsertSearchAttributes([
      { key: FLEET, value: to },
      { key: HOME, value: home },
    ]);
    upsertMemo({ [CELL_MEMO]: { from, to, code } satisfies CellMemo });
    show();
  }

  function requestOf(of: JobSpec, requestedAtMs: number): GangRequest {
    const part = scheduledPart(of);
    const patienceMs = cells.patienceMs();
    return {
      ...part,
      ...(isShrunk && { gang: { ...part.gang, timeoutMs: ms(0) } }),
      jobId: id,
      runId: run,
      seq,
      submittedAtMs,
      requestedAtMs,
      ...(avoidHosts.length > 0 && { avoidHosts }),
      ...(patienceMs !== undefined && { patienceMs }),
    };
  }

  async function attempt(of: JobSpec, won: Grant, requestedAtMs: number): Promise<GangEnd> {
    const index = attempts.length;
    const { launch, checkpoint } = of.run;
    // Checkpoints in the agents' own folders are nowhere else.
    if (checkpoint !== undefined && checkpoint.dir === undefined) cells.settle();
    attempts.push(attemptView(won, { attempt: index + 1, requestedAtMs, launch }));
    enter("running");
    note(won.lease.id);
    mark("running", [...new Set(won.lease.gpus.map((part) => clusterOf(part.host)))]);
    const given = await outfitFor(of, won, index);
    const end = await runGang(
      {
        jobId: id,
        rules,
        workflowRunId: runId,
        fleetWorkflowId: fleetId(),
        spec: of,
        grant: won,
        attempt: index + 1,
        ...(given !== undefined && { outfit: given }),
      },
      wish,
      () => enter("stopping"),
    );
    const { end: how, cause, startedAtMs, endedAtMs, measuredGbs } = end;
    const noted = attempts[index];
    if (noted !== undefined) {
      const { preempted, ...former } = noted;
      const isPreempted = preempted !== undefined && gaveWay(end);
      attempts[index] = {
        ...former,
        end: how,
        endedAtMs,
        ...(startedAtMs !== undefined && { startedAtMs }),
        ...(measuredGbs !== undefined && { measuredGbs }),
        ...(cause !== undefined && !isPreempted && { cause }),
        ...(isPreempted && {
          preempted: settledPreemption(preempted, end, gpuCountOf(won.lease.gpus)),
        }),
      };
    }
    return end;
  }

  /** What the run is given before it starts; undefined for most jobs, and where it is to stop instead. */
  async function outfitFor(of: JobSpec, won: Grant, index: number): Promise<Outfit | undefined> {
    if (outfits.length === 0) return undefined;
    const report = await outfitRun(
      {
        fleetWorkflowId: fleetId(),
        jobId: id,
        spec: of,
        gpus: won.lease.gpus,
        attempt: index + 1,
        parts: outfits,
      },
      wish,
    );
    const noted = attempts[index];
    if (report === undefined || noted === undefined) return undefined;
    const { env, files, notes } = report;
    attempts[index] = { ...noted, outfit: notes };
    show();
    return { env, files };
  }

  /** Shows on the run of this lease that it is to give up its GPUs. */
  function note(lease: LeaseId): void {
    const last = attempts.at(-1);
    if (wish.preempt?.lease !== lease || last?.leaseId !== lease || last.end !== undefined) return;
    attempts[attempts.length - 1] = { preempted: preemptionOf(wish.preempt), ...last };
    show();
  }

  function isCornered(): boolean {
    return pending?.code === "NoMatchingFlavor" && avoidHosts.length > 0;
  }

  /** The job is asked to stop before it was granted anything. */
  async function endWaiting(): Promise<GangEnd> {
    await words.tell({ kind: "end", jobId: id, runId: run, seq, unconfirmedHosts: [] });
    return { end: "stopped", unconfirmedHosts: [], endedAtMs: Date.now() };
  }

  /** The result, or the failure or cancellation that ends the workflow. */
  function finish(end: GangEnd, of: JobSpec): JobResult {
    const last = attempts.at(-1);
    const isCompleted = end.end === "completed" && last !== undefined;
    const ended = isCompleted ? "completed" : wish.reason === "cancelled" ? "cancelled" : "failed";
    enter(ended);
    mark(ended, []);
    if (isCompleted) return jobResult(end, { jobId: id, attempts, last, submittedAtMs });
    if (ended === "cancelled") throw cancellation;
    throw jobFailure(end, {
      jobId: id,
      attempts: attempts.length,
      ...(wish.reason === "deadline" && { missedDeadlineMs: of.deadlineMs ?? 0 }),
    });
  }
}
