/**
 * @file A model of the program on a host: the activities of `protocol/agent-contract.ts`, what it does at its start, and how it announces itself.
 *
 * Launches, tokens and the last contact lie on the host's disk; all else dies with the process. It follows `agent/` step by step as far as the
 * protocol sees it; checkpoints, output and containment are left out.
 */

import type {
  RunHeartbeat,
  RunOrder,
  RunReport,
  StopOrder,
  StopReport,
} from "../../protocol/agent-contract.ts";
import { takenGpus } from "../../scheduling/ledger/rules/usage.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { ActivityEnd, Attempt } from "../temporal/activity.ts";
import { askFleet, FLEET } from "../shells/site.ts";
import { isFollowedBy, maskOn } from "./agent-rules.ts";
import { addressOf, announce, counterOf } from "./agent-presence.ts";
import type { Agents } from "./agents.ts";
import { keyOf, newLaunch, type Launch } from "./disk.ts";
import { watchGpus } from "./gpu-watch.ts";
import { callOff, reportOf as reportOfLaunch, type Host } from "./host.ts";

const LOOK_MS = 1_000;
const ASK_MS = 10_000;
const AGAIN_MS = 30_000;
const LINGER_MS = 90_000;
const RETRY_MS = 1_000;
/** So long a start waits for a contact. */
const GATE_MS = 20_000;

/** An error of the disk in the midst of a start: what is stored stays so. */
const DISK = "DISK";
/** Of a stop: it may be tried again. */
const PASSING: ActivityEnd<never> = { kind: "failed", code: "UNAVAILABLE" };

const failed = (code: string): ActivityEnd<never> => ({ kind: "failed", code, isFinal: true });

/** The life of an agent, from its start. */
export function* agentLife(agents: Agents, host: Host, process: Process): Task<void> {
  const { kernel, server } = agents.site();
  host.agent = process;
  host.answeredFromMs = -Infinity;
  // Its lock and its epoch are files.
  while (!host.disk.takesFiles()) yield* sleep(kernel, AGAIN_MS / 6);
  host.disk.load();
  if (host.tokens !== undefined) agents.witness.loaded(host.id, host.tokens);
  for (const launch of host.launches.values()) launch.watched = 0;
  if (agents.rules.endsStrays)
    for (const key of [...host.running.keys()])
      if ((host.launches.get(key)?.phase ?? "over") === "over") yield* host.killRanks(key, 0);
  if (!agents.rules.givesUp)
    for (const [key, { phase, report }] of [...host.launches])
      if (phase === "over" && report === undefined) host.launches.delete(key);
  for (const launch of host.launches.values()) settleLost(agents, host, launch);
  if (host.tokens === undefined) {
    const tokens = { seen: new Array<number>(host.gpuCount).fill(0), revoked: new Set<number>() };
    if (agents.rules.heals) process.spawn(heal(agents, host, { process, tokens }));
    else host.tokens = tokens;
  }
  const address = addressOf(host, process);
  server.poll(address.runQueue, process);
  server.poll(address.orderQueue, process);
  for (const launch of host.launches.values())
    if (launch.phase !== "over") process.spawn(watchUnattended(agents, host, { process, launch }));
  if (agents.mayBreakGpus) process.spawn(watchGpus(agents, host, process));
  const { contact } = host;
  if (contact !== undefined)
    host.note(
      contact.bootId === host.bootId()
        ? contact
        : { ...contact, bootId: host.bootId(), atSinceBootMs: host.sinceBootMs() },
    );
  for (;;) {
    if (counterOf(process).count === 0) yield* announce(agents, host, process);
    yield* sleep(kernel, AGAIN_MS);
  }
}

/** A host that has lost its tokens takes them from the fleet; until then it admits nothing. */
function* heal(
  agents: Agents,
  host: Host,
  { process, tokens }: { readonly process: Process; readonly tokens: NonNullable<Host["tokens"]> },
): Task<void> {
  for (;;) {
    const found = yield* askFleet(agents.site(), process, {
      fleet: FLEET,
      mayBeClosed: true,
      question: ({ ledger }) => {
        const leases = [...ledger.leases.values()];
        return tokens.seen.map((_, gpu) => {
          const lease = leases.find((each) =>
            takenGpus(each).some((part) => part.host === host.id && (part.mask >>> gpu) % 2 === 1),
          );
          return lease?.token ?? ledger.nextToken - 1;
        });
      },
    });
    if (found.kind !== "failed") {
      const given = found.kind === "answer" ? found.value : [];
      host.tokens = { seen: tokens.seen.map((_, gpu) => given[gpu] ?? 0), revoked: new Set() };
      return;
    }
    yield* sleep(agents.site().kernel, RETRY_MS);
  }
}

/** A launch whose supervisor is gone with an earlier boot. */
function settleLost({ rules }: Agents, host: Host, launch: Launch): void {
  if (launch.phase !== "started" || rules.mayRun(launch, host.bootId())) return;
  launch.phase = "over";
  launch.report = reportOfLaunch(launch, "lost", { nowMs: host.clock().wallMs });
}

/** A launch that no attempt watches is stopped once its job is closed, and the fleet hears of its end. */
function* watchUnattended(
  agents: Agents,
  host: Host,
  { process, launch }: { readonly process: Process; readonly launch: Launch },
): Task<void> {
  const { kernel, network, server } = agents.site();
  while (launch.phase !== "over") {
    yield* sleep(kernel, ASK_MS);
    if (launch.watched > 0) continue;
    const { workflowId, workflowRunId } = launch.order;
    const reply = yield* network.call(
      process,
      () => server.openRun(workflowId)?.runId !== workflowRunId,
    );
    if (reply.isHeard && reply.value) yield* stopLaunch(agents, host, launch);
  }
  if (launch.watched > 0) return;
  const { leaseId } = launch.order;
  const payload = [{ kind: "vacated", lease: leaseId, hosts: [host.id] }];
  yield* network.call(process, () => server.signal(FLEET, { name: "inbox", payload }));
}

/** Undefined where the disk does not take the order: the launch goes on. */
function* stopLaunch({ rules }: Agents, host: Host, launch: Launch): Task<boolean | undefined> {
  if (launch.phase !== "over" && !host.disk.takesFiles()) return undefined;
  if (launch.phase === "stored") callOff(launch, host.clock().wallMs);
  const { run } = launch.order;
  if (!rules.stopWaits) {
    host.agent?.spawn(host.killRanks(keyOf(launch.order), run.graceMs));
    return true;
  }
  return yield* host.killRanks(keyOf(launch.order), run.graceMs);
}

interface Sent {
  readonly order: RunOrder;
  /** The run of a workflow that orders it. */
  readonly sender: string;
}

export function* runOn(
  agents: Agents,
  attempt: Attempt<RunReport>,
  sent: Sent,
): Task<ActivityEnd<RunReport>> {
  const host = agents.hosts.get(sent.order.host);
  if (host === undefined) return failed("HOST_REFUSED");
  const end = yield* runHere(agents, attempt, { host, ...sent });
  // The job may go on elsewhere.
  if (end.kind === "failed" && agents.rules.notesRefusals)
    host.answeredFromMs = Math.max(host.answeredFromMs, attempt.givenAtMs);
  return end;
}

function* runHere(
  agents: Agents,
  attempt: Attempt<RunReport>,
  { host, order, sender }: Sent & { readonly host: Host },
): Task<ActivityEnd<RunReport>> {
  const key = keyOf(order);
  if (!host.launches.has(key) && !(yield* isInContact(agents, host))) return failed("HOST_REFUSED");
  const known = host.launches.get(key);
  if (known !== undefined && !agents.rules.isOrdered(known, order)) return failed("NOT_ALLOWED");
  if (known?.report !== undefined) return { kind: "done", value: known.report };
  // Its files could not be read.
  if (known?.phase === "over") return failed("STALE_TOKEN");
  const isNew = known === undefined || !agents.rules.takesOver(known);
  let launch = known;
  if (isNew) {
    if (!agents.rules.mayOrder(order, sender)) return failed("STALE_TOKEN");
    const started = yield* start(agents, attempt, { host, order });
    if ("kind" in started) return started;
    launch = started;
  }
  if (launch === undefined) return failed("STALE_TOKEN");
  return yield* watch(agents, attempt, { host, launch });
}

/** Grants follow the agent's report, and the first heartbeat may come after the first grant. */
function* isInContact({ rules, site }: Agents, host: Host): Task<boolean> {
  const { kernel } = site();
  const untilMs = kernel.nowMs() + GATE_MS;
  while (rules.isOutOfContact(host.contact, host.clock())) {
    if (kernel.nowMs() > untilMs) return false;
    yield* sleep(kernel, RETRY_MS);
  }
  return true;
}

/** Prepare, barrier, commit. */
function* start(
  agents: Agents,
  attempt: Attempt<RunReport>,
  { host, order }: { readonly host: Host; readonly order: RunOrder },
): Task<Launch | ActivityEnd<RunReport>> {
  const { kernel, network, beatsOf, server } = agents.site();
  const { rules } = agents;
  const mask = maskOn(order);
  if (agents.isRefusing(host.id) || mask <= 0 || mask >= 2 ** host.gpuCount)
    return failed("HOST_REFUSED");
  if (!host.disk.takesFiles()) return failed("HOST_REFUSED");
  const { tokens } = host;
  if (tokens === undefined) return failed("HOST_REFUSED");
  if (rules.refusalOf(tokens, order.token, mask) !== undefined) return failed("STALE_TOKEN");
  const isNoted = yield* host.disk.changeTokens((each) => rules.raise(each, order.token, mask));
  if (!isNoted) return failed(DISK);
  if (rules.refusalOf(tokens, order.token, mask) !== undefined) return failed("STALE_TOKEN");
  if ([...host.launches.values()].some((later) => isFollowedBy(order, later.order)))
    return failed("STALE_TOKEN");
  for (const lower of [...host.launches.values()])
    if (rules.isInTheWay(lower, order, mask))
      if ((yield* stopLaunch(agents, host, lower)) === undefined) return failed(DISK);
  const known = host.launches.get(keyOf(order));
  const launch: Launch = known?.phase === "stored" ? known : newLaunch(order, host.bootId());
  host.launches.set(keyOf(order), launch);
  agents.taken.push(order);
  agents.witness.prepared(host.id, order);
  const beat: RunHeartbeat = { phase: "prepared", host: host.id, token: order.token };
  // Nobody waits for the answer: a host that has no siblings starts at once.
  attempt.process.spawn(attempt.beat(beat));
  const untilMs = kernel.nowMs() + order.prepareTimeoutMs;
  const seen: RunHeartbeat[] = [];
  const isInDoubt =
    rules.isJustBack(host, host.clock()) || rules.isFromBefore(attempt.givenAtMs, host);
  while (launch.phase === "stored" && !rules.isGangReady(order, seen, isInDoubt)) {
    const look = yield* network.call(attempt.process, () => ({
      isClosed: server.openRun(order.workflowId)?.runId !== order.workflowRunId,
      beats: beatsOf(order.workflowId) as readonly RunHeartbeat[], // of our own agents
    }));
    if (!host.disk.takesFiles()) return failed(DISK);
    if (look.isHeard && look.value.isClosed) callOff(launch, host.clock().wallMs);
    // A sibling that was seen once counts.
    if (look.isHeard) seen.push(...look.value.beats);
    if (launch.phase !== "stored" || rules.isGangReady(order, seen, isInDoubt)) break;
    if (kernel.nowMs() > untilMs) {
      callOff(launch, host.clock().wallMs);
      return failed("GANG_NOT_READY");
    }
    const said = yield* attempt.beat(beat);
    if (said === "cancel" && !host.disk.takesFiles()) return failed(DISK);
    if (said === "cancel") callOff(launch, host.clock().wallMs);
    if (said === "forgotten") {
      attempt.process.spawn(watchUnattended(agents, host, { process: attempt.process, launch }));
      return { kind: "stays open" };
    }
    yield* sleep(kernel, LOOK_MS);
  }
  if (launch.phase === "stored" && host.tokens !== undefined) {
    const isStale = rules.refusalOf(host.tokens, order.token, mask) !== undefined;
    // An agent that was frozen may wake after the fleet has given its GPUs away.
    const isFenced = host.contact !== undefined && rules.isCutOff(host.contact, host.clock());
    if (!host.disk.takesFiles()) return failed(DISK);
    if (isStale || isFenced) callOff(launch, host.clock().wallMs);
    else host.startRanks(launch, (task) => agents.fateOf(order, task));
  }
  return launch;
}

/** Until its processes are gone. */
function* watch(
  agents: Agents,
  attempt: Attempt<RunReport>,
  { host, launch }: { readonly host: Host; readonly launch: Launch },
): Task<ActivityEnd<RunReport>> {
  const { kernel } = agents.site();
  const { order } = launch;
  const everyMs = (attempt.heartbeatMs ?? 60_000) / 3;
  const beat: RunHeartbeat = { phase: "running", host: host.id, token: order.token };
  launch.watched += 1;
  try {
    let nextBeatMs = 0;
    while (launch.report === undefined) {
      if (kernel.nowMs() >= nextBeatMs) {
        nextBeatMs = kernel.nowMs() + everyMs;
        const said = yield* attempt.beat(beat);
        if (said === "cancel" && (yield* stopLaunch(agents, host, launch)) === undefined)
          return failed(DISK);
        if (said === "forgotten") {
          attempt.process.spawn(
            watchUnattended(agents, host, { process: attempt.process, launch }),
          );
          return { kind: "stays open" };
        }
      }
      if (launch.report === undefined) yield* sleep(kernel, Math.min(everyMs, LOOK_MS * 2));
    }
    yield* awaitSiblings(agents, attempt.process, launch);
    return { kind: "done", value: launch.report };
  } finally {
    launch.watched -= 1;
  }
}

/** After a good end: a sibling that still stands at the barrier must not miss this host there. */
function* awaitSiblings(agents: Agents, process: Process, { order, report }: Launch): Task<void> {
  if (report?.end !== "completed" || order.gang.length === 1) return;
  const { kernel, network, beatsOf } = agents.site();
  const untilMs = kernel.nowMs() + LINGER_MS;
  while (kernel.nowMs() < untilMs) {
    const beats = yield* network.call(
      process,
      () => beatsOf(order.workflowId) as readonly RunHeartbeat[], // of our own agents
    );
    const isAnyLeft =
      !beats.isHeard ||
      beats.value.some(
        ({ host, token, phase }) =>
          host !== order.host && token === order.token && phase === "prepared",
      );
    if (!isAnyLeft) return;
    yield* sleep(kernel, LOOK_MS);
  }
}

export function* stopOn(
  agents: Agents,
  _attempt: Attempt<StopReport>,
  order: StopOrder,
): Task<ActivityEnd<StopReport>> {
  const host = agents.hosts.get(order.host);
  if (host?.tokens === undefined) return failed("HOST_LOST");
  const launches = [...host.launches.values()].filter((of) => of.order.leaseId === order.leaseId);
  const isNoted = yield* host.disk.changeTokens((tokens) => {
    agents.rules.revoke(tokens, order.token);
    for (const launch of launches) agents.rules.raise(tokens, order.token, maskOn(launch.order));
  });
  if (!isNoted) return PASSING;
  let hadProcesses = false;
  for (const launch of launches) {
    const had = yield* stopLaunch(agents, host, launch);
    if (had === undefined) return PASSING;
    hadProcesses ||= had;
  }
  agents.witness.stopped(host.id, order.leaseId);
  const report = launches.find((of) => of.order.taskBatch === undefined)?.report;
  return {
    kind: "done",
    value: {
      host: host.id,
      hadProcesses,
      ...(report?.hasStarted === true && { report }),
    },
  };
}
