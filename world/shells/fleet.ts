/**
 * @file The workflow of a fleet in a world: its machine, and its activities as `workflows/fleet/fleet.ts` and `activities/` carry them out.
 *
 * A decider answers with a plan for the ledger of the moment at which it was asked. Start estimates are never made.
 */

import type { Plan } from "../../domain/lease/plan.ts";
import type { JobId, LeaseId, TenantId } from "../../domain/values/ids.ts";
import type { FleetCommand, FleetEvent } from "../../machines/fleet/events.ts";
import { openChain } from "../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import { isRead } from "../../machines/fleet/inbox.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import type {
  AuditOrder,
  DeliveryReport,
  Post,
  RecoverOrder,
} from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { lobbyWorkflowId, presenceWorkflowId, sweepWorkflowId } from "../../protocol/names.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Process, Task } from "../kernel/process.ts";
import { sleep } from "../kernel/process.ts";
import type { ActivityEnd, ActivityOutcome } from "../temporal/activity.ts";
import { openRun } from "../temporal/run.ts";
import type { WorkflowRun, WorkflowType } from "../temporal/workflow.ts";
import { askOpenRun, askRun } from "./open-run.ts";
import { repair } from "./repair.ts";
import { FLEET_QUEUE, type Site } from "./site.ts";
import { lobbyInputFor } from "./lobby.ts";

export type Planner = (ledger: Ledger, nowMs: number) => Plan;
export type FleetRun = WorkflowRun<FleetState, FleetEvent>;

/** As the workflow hears it: what is too large is not even decoded. */
function wordOf(payload: unknown, { ledger }: FleetInput): FleetEvent {
  const bytes = JSON.stringify(payload).length;
  return {
    kind: "inbox",
    batch: isRead(ledger, bytes) ? payload : undefined,
    bytes,
    sender: "world",
  };
}

/** Of decisions, and of the rare one that a decider that was just started cannot make. */
const DECIDE_MS = 12;
const STALE_IN = 20;
/** Of questions who has said something. */
const CHECK_MS = 4;

export function registerFleet(site: Site, plan: Planner, keep: (run: FleetRun) => void): void {
  const { server, planted } = site;
  const machine = planted.fleet?.(fleetMachine) ?? fleetMachine;
  server.register("fleet", (identity, input) => {
    const given = input as FleetInput; // of the fleet before, or of the world's own start
    const type: WorkflowType<FleetState, FleetEvent, FleetCommand> = {
      queue: FLEET_QUEUE,
      machine,
      open: ({ startedAtMs, runId }, nowMs) => ({
        state: openChain(openFleet(given, startedAtMs, nowMs), given, runId),
        commands: [],
      }),
      signal: (name, payload) =>
        name === "inbox"
          ? wordOf(payload, given)
          : { kind: "unknown-signal", signal: name, bytes: 0, sender: "world" },
      atOnce: ({ kind }) =>
        kind === "finish-handlers" ? { kind: "handlers-finished" } : undefined,
      isLocal: ({ kind }) => kind === "decide" || kind === "decide-next" || kind === "check",
      local: (command, { state }) => decided(site, plan, { command, state }),
      carryOut: (command, run) => carryOut(site, command, run),
      endOf: (_state, commands) => {
        const last = commands.find((each) => each.kind === "continue-as-new");
        if (last?.kind !== "continue-as-new") return undefined;
        return { kind: "continued", input: planted.carried?.(last.input) ?? last.input };
      },
    };
    const run = openRun(server, type, identity);
    keep(run);
    return run;
  });
}

function* decided(
  { kernel }: Site,
  plan: Planner,
  { command, state }: { readonly command: FleetCommand; readonly state: FleetState },
): Task<FleetEvent | undefined> {
  if (command.kind === "check") {
    yield* sleep(kernel, kernel.random.exponential(CHECK_MS));
    // Nobody has keys, so everybody is believed. What is decided in the same activity is asked for by itself.
    return { kind: "checked", id: command.id, verdicts: { refused: [] } };
  }
  if (command.kind !== "decide" && command.kind !== "decide-next") return undefined;
  const { id, nowMs } = command;
  yield* sleep(kernel, kernel.random.exponential(DECIDE_MS));
  if (command.kind === "decide-next" && kernel.random.below(STALE_IN) === 0)
    return { kind: "stale", id };
  const answer = `plan-${id}`;
  return { kind: "decided", id, plan: plan(state.ledger, nowMs), answer };
}

function carryOut(site: Site, command: FleetCommand, run: FleetRun): void {
  switch (command.kind) {
    case "deliver":
      return background(site, run, {
        id: command.id,
        startToCloseMs: 30_000,
        body: (process) => deliver(site, process, command.post),
        eventOf: (report) => ({ kind: "delivered", id: command.id, report }),
      });
    case "audit":
      return background(site, run, {
        id: command.id,
        startToCloseMs: 300_000,
        body: (process) => audit(site, process, command.order),
        eventOf: (report) => ({ kind: "audited", id: command.id, report }),
      });
    case "recover":
      return background(site, run, {
        id: command.id,
        startToCloseMs: 300_000,
        body: (process) => recover(site, process, command.order),
        eventOf: () => ({ kind: "recovered", id: command.id }),
      });
    case "repair":
      return background(site, run, {
        id: command.id,
        startToCloseMs: 600_000,
        body: (process) => repair(site, process, command.order),
        eventOf: (report) => ({ kind: "repaired", id: command.id, report }),
      });
    case "estimate-starts":
      return run.arrive({ kind: "event", event: { kind: "failed", id: command.id } });
    default:
      return undefined;
  }
}

function background<Value>(
  site: Site,
  run: FleetRun,
  work: {
    readonly id: number;
    readonly startToCloseMs: number;
    readonly body: (process: Process) => Task<ActivityEnd<Value>>;
    readonly eventOf: (value: Value) => FleetEvent;
  },
): void {
  site.activity<Value>(run, {
    queue: FLEET_QUEUE,
    name: `fleet-${work.id}`,
    startToCloseMs: work.startToCloseMs,
    body: ({ process }) => work.body(process),
    onEnd: (outcome: ActivityOutcome<Value>) =>
      run.arrive({
        kind: "event",
        event:
          outcome.kind === "done" ? work.eventOf(outcome.value) : { kind: "failed", id: work.id },
      }),
  });
}

/** A word to one workflow: `gone` where no such run is open, `unknown` where nobody answered. */
function* send(
  { network, server }: Site,
  from: Process,
  word: {
    readonly to: string;
    readonly name: string;
    readonly payload?: unknown;
    readonly runId?: string;
  },
): Task<"sent" | "gone" | "unknown"> {
  const reply = yield* network.call(from, () => server.signal(word.to, word));
  if (!reply.isHeard) return "unknown";
  return reply.value ? "sent" : "gone";
}

function* deliver(site: Site, process: Process, post: Post): Task<ActivityEnd<DeliveryReport>> {
  const { server, network } = site;
  const told = { accepted: [] as LeaseId[], gone: [] as LeaseId[] };
  const evicted = { sent: [] as LeaseId[], gone: [] as LeaseId[] };
  const lobbies: TenantId[] = [];
  for (const parcel of parcelsOf(post.grants)) {
    const [first] = parcel;
    if (first === undefined) continue;
    const { jobId: to, runId, slots } = first.lease;
    const grants = parcel.map(({ lease, agents, reason }) => ({
      seq: lease.seq,
      lease,
      agents,
      reason,
    }));
    const word =
      slots === undefined
        ? { name: "grant", payload: grants[0] }
        : { name: "grants", payload: grants };
    const end = yield* send(site, process, { to, runId, ...word });
    const isAsked = end === "gone" && (yield* askOpenRun(site, process, to));
    for (const { lease } of parcel) {
      if (end === "sent") told.accepted.push(lease.id);
      if (isAsked) told.gone.push(lease.id);
    }
  }
  for (const { jobId: to, runId, seq, reason } of post.pending)
    yield* send(site, process, { to, runId, name: "pending", payload: { seq, reason } });
  for (const { jobId: to, runId, ...payload } of post.losses ?? [])
    yield* send(site, process, { to, runId, name: "fenced", payload });
  for (const order of post.sweeps ?? [])
    yield* network.call(process, () =>
      server.start("sweep", sweepWorkflowId(order.fleet, order.lease), order),
    );
  for (const news of post.lobbies ?? []) {
    const id = lobbyWorkflowId(news.fleet, news.tenant);
    const reply = yield* network.call(process, () => {
      const word = { name: "lobby-news", payload: news };
      if (server.signal(id, word)) return;
      server.start("lobby", id, lobbyInputFor(server, news, id));
      server.signal(id, word);
    });
    if (reply.isHeard) lobbies.push(news.tenant);
  }
  for (const { order, jobId: to, runId } of post.evictions ?? []) {
    const end = yield* send(site, process, { to, runId, name: "preempt", payload: order });
    if (end === "sent") evicted.sent.push(order.lease);
    if (end === "gone" && (yield* askOpenRun(site, process, to))) evicted.gone.push(order.lease);
  }
  const value = {
    ...told,
    ...(post.evictions !== undefined && { evictions: evicted }),
    ...(post.lobbies !== undefined && { lobbies }),
  } satisfies DeliveryReport;
  return { kind: "done", value };
}

/** Grants of an array are delivered together. */
function parcelsOf(grants: Post["grants"]): readonly Post["grants"][] {
  const parcels: Post["grants"][number][][] = [];
  const open = new Map<string, Post["grants"][number][]>();
  for (const delivery of grants) {
    const { jobId, runId, slots } = delivery.lease;
    const former = slots === undefined ? undefined : open.get(`${jobId} ${runId}`);
    if (former !== undefined) former.push(delivery);
    else {
      const parcel = [delivery];
      parcels.push(parcel);
      open.set(`${jobId} ${runId}`, parcel);
    }
  }
  return parcels;
}

function* audit(
  site: Site,
  process: Process,
  { holders, asked, doubted = [] }: AuditOrder,
): Task<ActivityEnd<{ readonly closed: AuditOrder["holders"] }>> {
  const closed: AuditOrder["holders"][number][] = [];
  for (const holder of holders) {
    const { jobId } = holder;
    const reply = yield* site.network.call(process, () => site.server.openRun(jobId)?.runId);
    if (!reply.isHeard) return { kind: "failed", code: "UNAVAILABLE" };
    const open = reply.value;
    const isGone = open !== holder.runId;
    const leases = doubted.flatMap((each) => (each.jobId === jobId ? [each.lease] : []));
    const isAsked = open !== undefined && (isGone || asked.includes(jobId));
    const isTold = !isAsked || (yield* askRun(site, process, { jobId, runId: open, leases }));
    if (isGone && isTold) closed.push(holder);
  }
  return { kind: "done", value: { closed } };
}

function* recover(
  site: Site,
  process: Process,
  { fleet, clusters, isLedgerLost, areWordsLost, creditsFrom }: RecoverOrder,
): Task<ActivityEnd<undefined>> {
  const { network, server } = site;
  for (const cluster of clusters) {
    const to = presenceWorkflowId(fleet, cluster);
    const end = yield* send(site, process, { to, name: "report-again" });
    if (end === "unknown") return { kind: "failed", code: "UNAVAILABLE" };
  }
  if (!isLedgerLost && areWordsLost !== true) return { kind: "done", value: undefined };
  const listed = yield* network.call(process, () => ({
    lobbies: server.openIds("lobby"),
    jobs: server.openIds("job").flatMap((id) => {
      const runId = server.openRun(id)?.runId;
      return runId === undefined ? [] : [{ jobId: id as JobId, runId }]; // of a job
    }),
  }));
  if (!listed.isHeard) return { kind: "failed", code: "UNAVAILABLE" };
  if (isLedgerLost)
    for (const to of listed.value.lobbies)
      yield* send(site, process, { to, name: "report-again", payload: { creditsFrom } });
  // A job that its lobby lists as well is asked, too: that it is asked twice changes nothing.
  for (const asked of listed.value.jobs) yield* askRun(site, process, asked);
  return { kind: "done", value: undefined };
}
