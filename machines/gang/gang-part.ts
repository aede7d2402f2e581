/**
 * @file The steps of one host's part: its run, the search for its agent, the order to stop.
 *
 * A silent host is asked again after a pause that doubles from two seconds to five minutes. An order to stop goes to the agent's
 * last known address; an agent that restarted since has another one, so an order that fails is repeated where the fleet says that the agent is
 * now, at most three times. Where the fleet has no agent for the host, and has let go of the lease, the host is as good as fenced.
 */

import type { Step } from "../machine.ts";
import { quiet } from "../steps.ts";
import type { HostId } from "../../domain/values/ids.ts";
import { runCommand, stopCommand, type GangCommand, type HostCall } from "./gang-commands.ts";
import { stoppedBeforeStart, type HostEnd } from "./gang-end.ts";
import {
  stoppedEnd,
  type Gang,
  type GangEvent,
  type HostPart,
  type HostStopping,
  type RunOutcome,
} from "./gang-state.ts";

const ADOPT_PAUSE_MS = 2_000;
/** Each question costs a dozen events; at this pace a job may wait for a silent host for weeks. */
const ADOPT_PAUSE_MAX_MS = 300_000;
const STOP_ATTEMPTS = 3;

type GangStep = Step<Gang, GangCommand>;
type Answer<Kind extends GangEvent["kind"]> = Extract<GangEvent, { readonly kind: Kind }>;

export const startPart = (gang: Gang, host: HostId): GangStep =>
  call(gang, host, (named, call) => ({
    state: changePart(named, host, { watch: { kind: "running" }, runId: call.id }),
    commands: [runCommand(named.input, named.peers, call)],
  }));

/** Asks the fleet where the agent of a host is now. */
export const findAgent = (gang: Gang, host: HostId): GangStep =>
  search(gang, host, (id) => ({ watch: { kind: "finding", id } }));

export const askToStop = (
  gang: Gang,
  host: HostId,
  { attempt, reason }: Pick<HostStopping, "attempt" | "reason">,
): GangStep =>
  call(gang, host, (named, call) => ({
    state: changePart(named, host, {
      stop: {
        attempt,
        reason,
        ...(named.isKilled === true && { isKill: true }),
        doing: { kind: "asking", id: call.id },
      },
    }),
    commands: [stopCommand(named.input, call, { reason, isKill: named.isKilled === true })],
  }));

export function endPart(gang: Gang, host: HostId, end: HostEnd): Gang {
  const ended = changePart(gang, host, { watch: { kind: "over" } });
  return { ...ended, ends: new Map([...gang.ends, [host, end]]) };
}

/** An order to stop a fenced host is not waited for. */
export function endFencedStop(gang: Gang, { host, stop }: HostPart): Gang {
  if (stop === undefined || stop.doing.kind === "over") return gang;
  const ended = changePart(gang, host, { stop: { ...stop, doing: { kind: "over" } } });
  return { ...ended, stopped: new Map([...gang.stopped, [host, "fenced"]]) };
}

export function ranPart(gang: Gang, { id, outcome }: Answer<"ran">, nowMs: number): GangStep {
  const part = gang.parts.find(({ runId }) => runId === id);
  if (part === undefined) return quiet(gang);
  const { runId: _answered, ...rest } = part;
  const answered = replacePart(gang, rest);
  // The part of a fenced host has ended before.
  if (part.watch.kind !== "running") return quiet(answered);
  switch (outcome.kind) {
    case "reported":
      return quiet(endPart(answered, part.host, outcome));
    case "cancelled": {
      // An operator who pauses the activity cancels it, too, and leaves the processes alone.
      if (!gang.isStopping) return quiet(pause(answered, part, nowMs));
      const cause = stoppedBeforeStart(part.host, nowMs);
      return quiet(endPart(answered, part.host, notStarted(part, cause)));
    }
    case "failed":
      return failedRun(answered, part, { outcome, nowMs });
  }
}

function failedRun(
  gang: Gang,
  part: HostPart,
  {
    outcome: { means, cause },
    nowMs,
  }: {
    readonly outcome: Extract<RunOutcome, { readonly kind: "failed" }>;
    readonly nowMs: number;
  },
): GangStep {
  const { host } = part;
  switch (means) {
    case "nothing runs":
      return quiet(endPart(gang, host, { kind: "refused", cause }));
    case "never started":
      return quiet(endPart(gang, host, notStarted(part, cause)));
    case "not taken":
      return quiet(pause(gang, part, nowMs, { mayRun: part.mayRun }));
    case "silent":
      return quiet(pause(gang, part, nowMs));
    case "faulty": {
      const watch = { kind: "failing", cause, isFaulty: true } as const;
      return quiet(endFailing(changePart(gang, host, { watch }), host));
    }
    case "broken": {
      const failing = changePart(gang, host, { watch: { kind: "failing", cause } });
      // A gang that stops has given the order already.
      if (part.stop !== undefined) return quiet(endFailing(failing, host));
      return askToStop(failing, host, { attempt: 1, reason: cause.message });
    }
  }
}

export function stoppedPart(gang: Gang, { id, outcome }: Answer<"stopped">): GangStep {
  const part = gang.parts.find(({ stop }) => isDoing(stop, "asking", id));
  if (part?.stop === undefined) return quiet(gang);
  const { host, stop } = part;
  if (outcome.kind === "failed" && stop.attempt < STOP_ATTEMPTS)
    return search(gang, host, (asked) => ({
      stop: { ...stop, doing: { kind: "finding", id: asked } },
    }));
  const over = changePart(gang, host, { stop: { ...stop, doing: { kind: "over" } } });
  const stopped =
    outcome.kind === "failed"
      ? over
      : { ...over, stopped: new Map([...gang.stopped, [host, outcome.report]]) };
  return quiet(endFailing(stopped, host));
}

export function foundAgent(
  gang: Gang,
  { id, agent, isLeaseGone }: Answer<"found">,
  nowMs: number,
): GangStep {
  const part = gang.parts.find(
    ({ watch, stop }) =>
      (watch.kind === "finding" && watch.id === id) || isDoing(stop, "finding", id),
  );
  if (part === undefined) return quiet(gang);
  const { host, watch, stop } = part;
  if (isLeaseGone === true) {
    const idle = watch.kind === "finding" ? pause(gang, part, nowMs, part) : gang;
    return quiet({ ...idle, fenced: new Set([...gang.fenced, host]) });
  }
  const known =
    agent === null ? gang : { ...gang, agents: new Map([...gang.agents, [host, agent]]) };
  if (watch.kind !== "finding" || watch.id !== id)
    return stop === undefined
      ? quiet(known)
      : askToStop(known, host, { attempt: stop.attempt + 1, reason: stop.reason });
  if (gang.phase === "running")
    return gang.isStopping
      ? quiet(endPart(known, host, stoppedEnd(part, nowMs)))
      : startPart(known, host);
  if (agent !== null) return quiet(changePart(known, host, { watch: { kind: "ready" } }));
  return quiet(pause(known, part, nowMs, { mayRun: false }));
}

/**
 * A failing part ends once its order to stop is over: refused where the host has confirmed that nothing runs. One whose GPU broke ends as the host
 * reports: it may have completed meanwhile.
 */
function endFailing(gang: Gang, host: HostId): Gang {
  const part = gang.parts.find((each) => each.host === host);
  if (part?.watch.kind !== "failing" || part.stop?.doing.kind !== "over") return gang;
  const { cause, isFaulty } = part.watch;
  const answer = gang.stopped.get(host);
  if (isFaulty === true && answer !== undefined && answer !== "fenced" && answer.report)
    return endPart(gang, host, { kind: "reported", report: answer.report });
  return endPart(gang, host, {
    kind: gang.stopped.has(host) ? "refused" : "unconfirmed",
    cause,
  });
}

const notStarted = (
  { mayRun }: HostPart,
  cause: Extract<HostEnd, { readonly kind: "refused" }>["cause"],
): HostEnd => ({ kind: mayRun ? "unconfirmed" : "refused", cause });

/** Silence: unless the task was never taken, something may run there. */
function pause(
  gang: Gang,
  { host, pauses }: HostPart,
  nowMs: number,
  { mayRun }: { readonly mayRun: boolean } = { mayRun: true },
): Gang {
  const pauseMs = Math.min(ADOPT_PAUSE_MS * 2 ** pauses, ADOPT_PAUSE_MAX_MS);
  return changePart(gang, host, {
    watch: { kind: "pausing", untilMs: nowMs + pauseMs },
    pauses: pauses + 1,
    mayRun,
  });
}

const isDoing = (stop: HostStopping | undefined, kind: "asking" | "finding", id: string): boolean =>
  stop?.doing.kind === kind && stop.doing.id === id;

/** A command to the agent of a host; none where the agent is not known, which cannot be once the gang runs. */
function call(
  gang: Gang,
  host: HostId,
  command: (gang: Gang, call: HostCall) => GangStep,
): GangStep {
  const agent = gang.agents.get(host);
  if (agent === undefined) return quiet(gang);
  const { id, state } = nextId(gang);
  return command(state, { id, host, agent });
}

function search(gang: Gang, host: HostId, change: (id: string) => Partial<HostPart>): GangStep {
  const { id, state } = nextId(gang);
  const { fleetWorkflowId, isLeaseAsked, grant } = gang.input;
  const lease = isLeaseAsked === true ? { lease: grant.lease.id } : {};
  return {
    state: changePart(state, host, change(id)),
    commands: [{ kind: "find-host", id, host, fleetWorkflowId, ...lease }],
  };
}

/** Unique among all gangs of a job: leases are numbered by the fleet, runs by the attempt and the batch. */
function nextId(gang: Gang): { readonly id: string; readonly state: Gang } {
  const { grant, attempt, taskBatch } = gang.input;
  const count = gang.commandCount + 1;
  const id = `${grant.lease.id}/${attempt}/${taskBatch?.seq ?? 0}/${count}`;
  return { id, state: { ...gang, commandCount: count } };
}

function changePart(gang: Gang, host: HostId, change: Partial<HostPart>): Gang {
  const part = gang.parts.find((each) => each.host === host);
  return part === undefined ? gang : replacePart(gang, { ...part, ...change });
}

const replacePart = (gang: Gang, part: HostPart): Gang => ({
  ...gang,
  parts: gang.parts.map((each) => (each.host === part.host ? part : each)),
});
