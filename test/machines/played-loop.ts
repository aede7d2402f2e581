/**
 * @file Plays a fleet's machine, the lobbies of its tenants and jobs together in simulated time: words take random times and come twice,
 * deliveries are given up after a part of them arrived, and the fleet's run continues as new. Jobs fail and ask again, and give way when they
 * are told to; job arrays play their own machine (`looped-array.ts`).
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import type { JobId, TenantId } from "../../domain/values/ids.ts";
import { randomFrom } from "../../lib/random.ts";
import type { FleetCommand, FleetEvent } from "../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import { othersWait } from "../../machines/fleet/view.ts";
import type { Post } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { packRow, type CallOrder, type LobbyExit } from "../../protocol/lobby-contract.ts";
import { decide } from "../../scheduling/cycle/decide.ts";
import { checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import { taken } from "../../lib/queue.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { OutsideRow } from "../../scheduling/ledger/intake.ts";
import { end, hello, readyLedger } from "../scheduling/builders.ts";
import { loopArray, type LoopedArray, type LoopTasks } from "./looped-array.ts";
import { playLobby, type PlayedLobby } from "./lobby/played-lobby.ts";

export interface LoopJob {
  readonly request: GangRequest;
  readonly runMs: number;
  /** All but the last fail, and the job asks again with the next number. */
  readonly runs: number;
  /** No host can ever take it. */
  readonly isHopeless: boolean;
  /** When its owner cancels it. */
  readonly leavesAtMs: number;
  /** Of an array, whose tasks run for `runMs` each. */
  readonly array?: LoopTasks;
}

/** What a job asks for now. */
interface Asked {
  readonly seq: number;
  readonly atMs: number;
  /** Runs that have failed. */
  readonly failed: number;
  readonly isRunning: boolean;
}

interface LoopOptions {
  readonly seed: number;
  /** Part of the deliveries whose report is lost. */
  readonly lost: number;
  /** The fleet's description from that time on. */
  readonly then?: { readonly atMs: number; readonly shape: FleetShape };
}

interface Happening {
  readonly atMs: number;
  readonly run: () => void;
}

const MAX_DELAY_MS = 400;

/** Whether or not a delivery carries them. */
const heldRows = ({ held, deliveries }: FleetState): readonly OutsideRow[] => [
  ...taken(held, Infinity).values,
  ...[...deliveries.underway.values()].flatMap((parcel) => parcel.held),
];

export function playLoop(shape: FleetShape, jobs: readonly LoopJob[], options: LoopOptions) {
  const random = randomFrom(options.seed, "loop");
  const { below } = random;
  const jobsById = new Map(jobs.map((job) => [job.request.jobId, job]));
  /** When the last run of each job began. */
  const started = new Map<JobId, number>();
  const asked = new Map<JobId, Asked>();
  let evicted = 0;
  let called = 0;
  const over = new Set<JobId>();
  const arrays = new Map<JobId, LoopedArray>();
  const lobbies = new Map<TenantId, PlayedLobby>();
  const faults: string[] = [];
  let agenda: Happening[] = [];
  let nowMs = 0;
  let run = 0;
  let state: FleetState = opened(packLedger(readyLedger(shape)));

  function opened(ledger: FleetInput["ledger"]): FleetState {
    return openFleet({ name: "default", ledger }, nowMs, nowMs);
  }

  function later(run: () => void, afterMs = below(MAX_DELAY_MS)): void {
    agenda.push({ atMs: nowMs + afterMs, run });
  }

  /** Arrives once or twice. */
  function send(run: () => void): void {
    later(run);
    if (below(5) === 0) later(run);
  }

  /** An answer reaches only the run that asked. */
  function answer(event: FleetEvent): void {
    const asked = run;
    later(() => {
      if (asked === run) step(event);
    });
  }

  const tellFleet = (entry: unknown): void =>
    send(() => step({ kind: "inbox", batch: [JSON.parse(JSON.stringify(entry))] }));

  function step(event: FleetEvent | { readonly kind: "tick" }): void {
    const next = fleetMachine.step(state, event, nowMs);
    state = next.state;
    for (const command of next.commands) carryOut(command);
    const broken = checkLedger(state.ledger).filter((fault) => !fault.startsWith("over-use"));
    faults.push(...broken.slice(0, 3));
  }

  function carryOut(command: FleetCommand): void {
    switch (command.kind) {
      case "check":
        return answer({ kind: "checked", id: command.id, verdicts: { refused: [] } });
      case "decide":
        return answer({
          kind: "decided",
          id: command.id,
          plan: decide(state.ledger, command.nowMs),
        });
      case "deliver":
        return deliver(command.id, command.post);
      case "audit":
        return answer({ kind: "audited", id: command.id, report: { closed: [] } });
      case "recover":
        return answer({ kind: "recovered", id: command.id });
      // Nothing here keeps a ledger.
      case "decide-next":
        return answer({ kind: "stale", id: command.id });
      case "estimate-starts":
      case "repair":
        return answer({ kind: "failed", id: command.id });
      case "finish-handlers":
        return answer({ kind: "handlers-finished" });
      case "continue-as-new":
      case "begin-anew":
        run += 1;
        state = openFleet(command.input, nowMs, nowMs);
        return undefined;
      case "record":
        return undefined;
    }
  }

  function deliver(
    id: number,
    { grants, pending, evictions = [], lobbies: news = [], outside = [] }: Post,
  ): void {
    for (const grant of grants) {
      const { jobId, seq } = grant.lease;
      const array = arrays.get(jobId);
      if (array === undefined) send(() => start(jobId, seq));
      else send(() => array.feed({ kind: "grants", offers: [{ ...grant, seq }] }));
    }
    for (const { jobId, ...note } of pending)
      send(() => arrays.get(jobId)?.feed({ kind: "pending", note }));
    for (const { jobId, order } of evictions) {
      const seq = state.ledger.leases.get(order.lease)?.seq;
      if (seq !== undefined) send(() => giveWay(jobId, seq));
    }
    for (const each of news) {
      const words = JSON.parse(JSON.stringify(each)) as typeof each; // as Temporal does
      send(() => lobbyOf(each.tenant).feed({ kind: "news", news: words }, nowMs));
      const reason = outside.find(({ tenant }) => tenant === each.tenant)?.reason;
      for (const { jobId, seq } of reason === undefined ? [] : words.rows)
        send(() => arrays.get(jobId)?.feed({ kind: "pending", note: { seq, reason } }));
    }
    if (random.unit() < options.lost) return answer({ kind: "failed", id });
    const report = {
      accepted: grants.map(({ lease }) => lease.id),
      gone: [],
      evictions: { sent: evictions.map(({ order }) => order.lease), gone: [] },
      lobbies: news.map(({ tenant }) => tenant),
    };
    return answer({ kind: "delivered", id, report });
  }

  function start(id: JobId, seq: number): void {
    const job = jobsById.get(id);
    if (job === undefined) return;
    const now = askedBy(job);
    if (over.has(id) || seq !== now.seq) return tellFleet(end(id, { seq }));
    if (now.isRunning) return;
    asked.set(id, { ...now, isRunning: true });
    const isLast = now.failed + 1 >= job.runs;
    if (isLast) started.set(id, nowMs);
    later(() => {
      if (!isRunning(job, seq)) return;
      if (isLast) finish(id);
      else askAgain(job, now.failed + 1);
    }, job.runMs);
  }

  const askedBy = ({ request }: LoopJob): Asked =>
    asked.get(request.jobId) ?? {
      seq: 1,
      atMs: request.requestedAtMs,
      failed: 0,
      isRunning: false,
    };

  const isRunning = (job: LoopJob, seq: number): boolean =>
    !over.has(job.request.jobId) && askedBy(job).seq === seq && askedBy(job).isRunning;

  /** It gives its GPUs back, and asks once the fleet can have heard of that, as a job's messages go one after the other. */
  function askAgain(job: LoopJob, failed: number): void {
    const { jobId } = job.request;
    const seq = askedBy(job).seq + 1;
    asked.set(jobId, { seq, atMs: nowMs, failed, isRunning: false });
    tellFleet(end(jobId, { seq: seq - 1 }));
    later(() => {
      if (!over.has(jobId) && askedBy(job).seq === seq)
        tellFleet({ kind: "request", request: requestOf(job) });
    }, MAX_DELAY_MS);
  }

  function giveWay(id: JobId, seq: number): void {
    const job = jobsById.get(id);
    if (job === undefined || !isRunning(job, seq)) return;
    evicted += 1;
    started.delete(id);
    askAgain(job, askedBy(job).failed);
  }

  function requestOf(job: LoopJob): GangRequest {
    const { seq, atMs } = askedBy(job);
    return { ...job.request, seq, requestedAtMs: atMs };
  }

  function finish(id: JobId): void {
    const job = jobsById.get(id);
    if (job === undefined || over.has(id)) return;
    const array = arrays.get(id);
    if (array !== undefined) return array.feed({ kind: "cancel" });
    over.add(id);
    const { request } = job;
    const { seq, isRunning: hasRun } = askedBy(job);
    tellFleet(end(id, { seq }));
    if (hasRun) return;
    const { runId, tenant, class: name } = request;
    const leave = { jobId: id, runId, seq, class: name };
    send(() => lobbies.get(tenant)?.feed({ kind: "leave", leave }, nowMs));
  }

  function callIn({ jobId, seq, credit, round }: CallOrder): boolean {
    const job = jobsById.get(jobId);
    called += 1;
    if (job === undefined || over.has(jobId)) return false;
    const array = arrays.get(jobId);
    if (array !== undefined) {
      send(() => array.feed({ kind: "call-in", call: { seq, credit, round } }));
      return true;
    }
    send(() => {
      if (over.has(jobId)) return;
      const place = { credit, ...(round > 0 && { round }) };
      tellFleet({ kind: "request", request: { ...requestOf(job), ...place } });
    });
    return true;
  }

  function lobbyOf(tenant: TenantId): PlayedLobby {
    const known = lobbies.get(tenant);
    if (known !== undefined && !known.isOver()) return known;
    const world = {
      callIn,
      tell: (entry: unknown) => {
        tellFleet(entry);
        return true;
      },
    };
    const lobby = playLobby(world, { fleet: "default", tenant });
    lobbies.set(tenant, lobby);
    return lobby;
  }

  /** The run ends whatever is under way, as it does when its history is long; what was on its way goes again. */
  function restart(): void {
    const { cycle, inbox, phase, ledger } = state;
    const isQuiet =
      cycle.underway === undefined && inbox.batches.size === 0 && heldRows(state).length === 0;
    if (isQuiet && phase === "open") {
      run += 1;
      state = opened(JSON.parse(JSON.stringify(packLedger(ledger))) as FleetInput["ledger"]); // as Temporal does
    }
    later(restart, 5_000 + below(30_000));
  }

  function configure(next: FleetShape): void {
    step({ kind: "order", order: { kind: "configure", shape: next } });
    const hosts = next.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
    tellFleet(hello(hosts));
  }

  function submit({ request, runMs, array }: LoopJob): void {
    if (array === undefined) return tellFleet({ kind: "request", request });
    const { jobId, tenant } = request;
    const world = {
      now: () => nowMs,
      later,
      below,
      tellFleet,
      leaveLobby: (leave: LobbyExit) =>
        send(() => lobbies.get(tenant)?.feed({ kind: "leave", leave }, nowMs)),
      othersWait: () => othersWait(state.ledger, jobId),
      hasStarted: () => started.set(jobId, nowMs),
      isOver: () => over.add(jobId),
    };
    arrays.set(jobId, loopArray(world, { request, runMs, tasks: array }));
  }

  for (const job of jobs) {
    const { request, leavesAtMs } = job;
    agenda.push({ atMs: request.submittedAtMs, run: () => submit(job) });
    if (leavesAtMs < Infinity)
      agenda.push({
        atMs: leavesAtMs,
        run: () => finish(request.jobId),
      });
  }
  agenda.push({ atMs: 7_000, run: restart });
  const { then } = options;
  if (then !== undefined) agenda.push({ atMs: then.atMs, run: () => configure(then.shape) });

  /** Every job that can start has started, or has left; what can never start is where it is. */
  const isSettled = (): boolean =>
    jobs.every(({ request: { jobId }, isHopeless }) =>
      isHopeless ? over.has(jobId) || whereabouts(jobId).length === 1 : over.has(jobId),
    );

  /** Where a job waits: `inside`, `outside`, or on its way between the two. */
  function whereabouts(id: JobId): readonly string[] {
    const { ledger } = state;
    const listed = [...lobbies.values()].flatMap((lobby) => {
      const { queues, called } = lobby.state();
      const rows = Object.values(queues).flatMap((queue) => queue.rows.map(packRow));
      const isCalled = [...called.values()].some(
        ({ row, credit }) => row.jobId === id && isOut(credit.number),
      );
      return rows.some(([job]) => job === id) || isCalled ? ["outside"] : [];
    });
    const isNews =
      ledger.intake?.news.has(id) === true || heldRows(state).some(({ jobId }) => jobId === id);
    return [
      ...(ledger.requests.has(id) ? ["inside"] : []),
      ...(listed.length > 0 || isNews ? ["outside"] : []),
    ];
    function isOut(number: number): boolean {
      return [...(ledger.intake?.lobbies.values() ?? [])].some(({ credits }) =>
        credits.has(number),
      );
    }
  }

  return {
    started,
    faults,
    evicted: () => evicted,
    /** Calls of lobbies so far. */
    called: () => called,
    arrays: arrays as ReadonlyMap<JobId, LoopedArray>,
    /** Until that time. */
    async run(untilMs: number): Promise<void> {
      for (let turns = 0; nowMs < untilMs && faults.length === 0; turns += 1) {
        for (const lobby of lobbies.values()) if (!lobby.isOver()) await lobby.settle(nowMs);
        const due = Math.min(
          ...agenda.map(({ atMs }) => atMs),
          ...[...lobbies.values()].map((lobby) => (lobby.isOver() ? Infinity : lobby.dueAtMs())),
          ...[...arrays.values()].map((array) => array.dueAtMs()),
          fleetMachine.dueAtMs(state),
        );
        if (due >= untilMs || isSettled()) return;
        nowMs = Math.max(nowMs, due);
        const ready = agenda.filter(({ atMs }) => atMs <= nowMs);
        agenda = agenda.filter(({ atMs }) => atMs > nowMs);
        for (const { run } of ready.sort((a, b) => a.atMs - b.atMs)) run();
        for (const array of arrays.values()) array.tick();
        if (fleetMachine.dueAtMs(state) <= nowMs) step({ kind: "tick" });
      }
    },
    whereabouts,
  };
}
