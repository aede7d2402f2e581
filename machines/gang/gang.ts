/**
 * @file One run of a gang: every host of a lease runs its part, until all parts have ended or one reason stops them all.
 *
 * The first host that fails stops the others, and so does a cancellation, the deadline, a preemption or a GPU that has broken. A host whose agent went silent
 * is asked again, at its new address, to adopt the same lease and token. Silence alone ends no part: only the answer of the host does, or
 * the fleet's message that the host was fenced. The end names the hosts that could not confirm that nothing runs there.
 * Cost: O(hosts) for each event.
 */

import type { Step, Tick } from "../machine.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import type { GangCommand, GangInput } from "./gang-commands.ts";
import { calledOff, fencedOff, gangEnd, isGood } from "./gang-end.ts";
import {
  askToStop,
  endFencedStop,
  endPart,
  findAgent,
  foundAgent,
  ranPart,
  startPart,
  stoppedPart,
} from "./gang-part.ts";
import { isEnded, stoppedEnd, type Gang, type GangEvent } from "./gang-state.ts";

export function openGang(input: GangInput, nowMs: number): Step<Gang, GangCommand> {
  const { lease, agents } = input.grant;
  const known = new Map(agents.map(({ host, agent }) => [host, agent]));
  const gang: Gang = {
    input,
    phase: "locating",
    agents: known,
    peers: known,
    parts: lease.gpus.map(({ host }) => ({
      host,
      watch: { kind: "ready" },
      mayRun: false,
      pauses: 0,
    })),
    ends: new Map(),
    stopped: new Map(),
    fenced: new Set(),
    isStopping: false,
    hasLetGo: false,
    commandCount: 0,
  };
  const unknown = gang.parts.filter(({ host }) => !known.has(host));
  return andThen(
    forEach(gang, unknown, (before, { host }) => findAgent(before, host)),
    (located) => advance(located, nowMs),
  );
}

export function stepGang(
  gang: Gang,
  event: GangEvent | Tick,
  nowMs: number,
): Step<Gang, GangCommand> {
  if (gang.end !== undefined) return quiet(gang);
  return andThen(take(gang, event, nowMs), (taken) => advance(taken, nowMs));
}

/** When the next silent host is to be asked again; infinite when only events change the gang. */
export function gangDueAtMs(gang: Gang): number {
  if (gang.end !== undefined || isCalledOff(gang)) return Infinity;
  return gang.parts.reduce(
    (dueAtMs, { watch }) => (watch.kind === "pausing" ? Math.min(dueAtMs, watch.untilMs) : dueAtMs),
    Infinity,
  );
}

function take(gang: Gang, event: GangEvent | Tick, nowMs: number): Step<Gang, GangCommand> {
  switch (event.kind) {
    case "stop":
      return quiet({ ...gang, reason: gang.reason ?? event.reason });
    case "kill":
      return quiet({ ...gang, isKilled: true });
    case "preempt":
      return quiet({ ...gang, preempt: gang.preempt ?? event.order });
    case "fenced": {
      const lost = gang.parts.map(({ host }) => host).filter((host) => event.hosts.includes(host));
      return quiet({ ...gang, fenced: new Set([...gang.fenced, ...lost]) });
    }
    case "ran":
      return ranPart(gang, event, nowMs);
    case "stopped":
      return stoppedPart(gang, event);
    case "found":
      return foundAgent(gang, event, nowMs);
    case "tick":
      return isCalledOff(gang) ? quiet(gang) : askSilentHosts(gang, nowMs);
  }
}

function askSilentHosts(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  const due = gang.parts.filter(({ watch }) => watch.kind === "pausing" && watch.untilMs <= nowMs);
  return forEach(gang, due, (before, { host }) => findAgent(before, host));
}

/** Brings the gang as far as it gets without another event. */
function advance(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  const started = gang.phase === "locating" ? start(gang, nowMs) : quiet(gang);
  if (started.state.phase === "locating") return started;
  return [endFencedParts, orderStop, orderKill, endUnstartedParts, letGo, finish].reduce(
    (step, next) => andThen(step, (before) => next(before, nowMs)),
    started,
  );
}

const isStopWanted = ({ reason, preempt }: Gang): boolean =>
  reason !== undefined || preempt !== undefined;

/** Before its start a gang is called off by any reason to stop, and by the loss of any host. */
const isCalledOff = (gang: Gang): boolean =>
  gang.phase === "locating" && (isStopWanted(gang) || gang.fenced.size > 0);

/** Starts all parts at once, as soon as every agent is known. */
function start(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  if (isCalledOff(gang)) {
    // The workflow asks for nothing else while a search is under way (docs/decisions/0014).
    const isSearching = gang.parts.some(({ watch }) => watch.kind === "finding");
    return quiet(isSearching ? gang : { ...gang, end: calledOff(nowMs) });
  }
  if (gang.parts.some(({ watch }) => watch.kind !== "ready")) return quiet(gang);
  const running: Gang = { ...gang, phase: "running", peers: gang.agents };
  return forEach(running, running.parts, (before, { host }) => startPart(before, host));
}

/** A fenced host has nothing left to confirm, so its part is over and its order to stop is not waited for. */
function endFencedParts(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  return forEach(gang, gang.fenced, (before, host) => {
    const part = before.parts.find((each) => each.host === host);
    if (part === undefined) return quiet(before);
    const settled = endFencedStop(before, part);
    return quiet(isEnded(part) ? settled : endPart(settled, host, fencedOff(host, nowMs)));
  });
}

/** Orders every part that still runs to stop, once there is a reason to. */
function orderStop(gang: Gang): Step<Gang, GangCommand> {
  const isBad = [...gang.ends.values()].some((end) => !isGood(end));
  const fault = faultIn(gang);
  if (gang.isStopping || !(isBad || isStopWanted(gang) || fault !== undefined)) return quiet(gang);
  const remaining = gang.parts.filter((part) => !isEnded(part));
  if (remaining.length === 0) return quiet(gang);
  const { reason, preempt } = gang;
  const preempted = preempt === undefined ? undefined : `preempted for ${preempt.forJob}`;
  const why = reason ?? preempted ?? fault ?? "another host of the gang failed";
  return forEach({ ...gang, isStopping: true }, remaining, (before: Gang, { host, stop }) =>
    stop === undefined ? askToStop(before, host, { attempt: 1, reason: why }) : quiet(before),
  );
}

/** What a host has said of a broken GPU on which the gang still runs. */
const faultIn = ({ parts }: Gang): string | undefined =>
  parts
    .flatMap(({ watch }) =>
      watch.kind === "failing" && watch.isFaulty === true ? [watch.cause.message] : [],
    )
    .at(0);

/** Where a graceful stop is under way, it is overtaken: the first answer to come that is still waited for is the second one's. */
function orderKill(gang: Gang): Step<Gang, GangCommand> {
  if (!gang.isStopping || gang.isKilled !== true) return quiet(gang);
  const graceful = gang.parts.filter(
    ({ stop }) => stop?.doing.kind === "asking" && stop.isKill !== true,
  );
  return forEach(gang, graceful, (before: Gang, { host, stop }) =>
    stop === undefined ? quiet(before) : askToStop(before, host, { ...stop, attempt: 1 }),
  );
}

/** A gang that stops does not wait for the next question to a silent host. */
function endUnstartedParts(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  if (!gang.isStopping) return quiet(gang);
  return quiet(
    gang.parts
      .filter(({ watch }) => watch.kind === "pausing")
      .reduce((before, part) => endPart(before, part.host, stoppedEnd(part, nowMs)), gang),
  );
}

/** Once every order to stop is answered, or given up, the runs that are still watched are cancelled. */
function letGo(gang: Gang): Step<Gang, GangCommand> {
  if (!gang.isStopping || !hasAllStops(gang)) return quiet(gang);
  return stopWatching(gang);
}

function finish(gang: Gang, nowMs: number): Step<Gang, GangCommand> {
  if (!gang.parts.every(isEnded) || !hasAllStops(gang)) return quiet(gang);
  const ends = new Map(gang.ends);
  for (const [host, answer] of gang.stopped) {
    // The agent that watched the run has died, but the host knows how the run ended.
    const isUnwatched = ends.get(host)?.kind === "unconfirmed";
    if (isUnwatched && answer !== "fenced" && answer.report !== undefined)
      ends.set(host, { kind: "reported", report: answer.report });
  }
  const { grantedAtMs } = gang.input.grant.lease;
  const end = gangEnd({ ends, stopped: gang.stopped, grantedAtMs }, nowMs);
  const over: Gang = { ...gang, ends, end };
  // The activity of a fenced host is not waited for. Should the host come back, it learns of the cancellation.
  return gang.fenced.size > 0 ? stopWatching(over) : quiet(over);
}

const hasAllStops = ({ parts }: Gang): boolean =>
  parts.every(({ stop }) => stop === undefined || stop.doing.kind === "over");

function stopWatching(gang: Gang): Step<Gang, GangCommand> {
  const ids = gang.parts.flatMap(({ runId }) => runId ?? []);
  if (gang.hasLetGo || ids.length === 0) return quiet(gang);
  return { state: { ...gang, hasLetGo: true }, commands: [{ kind: "stop-watching", ids }] };
}
