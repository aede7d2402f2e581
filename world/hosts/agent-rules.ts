/**
 * @file The rules by which a model agent keeps its promises, one function each, as `agent/` has them: a test replaces one to see that it is missed.
 */

import type { RunHeartbeat, RunOrder } from "../../protocol/agent-contract.ts";
import type { Contact, Launch, Tokens } from "./disk.ts";

export interface AgentRules {
  /** Whether a run of a workflow may have this order start something: one that was reset repeats orders of the run before, or gives them anew for its leases. */
  readonly mayOrder: (order: RunOrder, sender: string) => boolean;
  /** Why a run under the token may not start on these GPUs. */
  readonly refusalOf: (tokens: Tokens, token: number, mask: number) => string | undefined;
  readonly raise: (tokens: Tokens, token: number, mask: number) => void;
  readonly revoke: (tokens: Tokens, token: number) => void;
  /** A gang starts once every host says so for this token. */
  readonly isGangReady: (
    order: RunOrder,
    beats: readonly RunHeartbeat[],
    isInDoubt: boolean,
  ) => boolean;
  /** Whether a launch that was started may still run, on a host with this boot id. */
  readonly mayRun: (launch: Launch, bootId: number) => boolean;
  /** Launches that have to end before the order may start: lower tokens on the same GPUs, and earlier batches of its lease. */
  readonly isInTheWay: (launch: Launch, order: RunOrder, mask: number) => boolean;
  /** Whether the host has been cut off for its fence. */
  readonly isCutOff: (contact: Contact, now: HostClock) => boolean;
  /** Whether the host has been silent for so long that nothing new may start there. */
  readonly isOutOfContact: (contact: Contact | undefined, now: HostClock) => boolean;
  /** Whether orders may have been given up while they lay in an agent that was frozen. */
  readonly isJustBack: (host: Silence, now: HostClock) => boolean;
  /** Whether an order was given before the agent told last what runs, or refused a run: it may have been given up since. */
  readonly isFromBefore: (givenAtMs: number, host: { readonly answeredFromMs: number }) => boolean;
  /** A run that it has refused counts there, too. */
  readonly notesRefusals: boolean;
  /** An agent ends, at its start, what runs and its folder does not know. */
  readonly endsStrays: boolean;
  /** A stop returns when nothing runs any more. */
  readonly stopWaits: boolean;
  /** Whether a launch is the one that is ordered: a run that was reset may give other tasks the number of a batch. */
  readonly isOrdered: (launch: Launch, order: RunOrder) => boolean;
  /** An attempt takes over the launch that an earlier one has started. */
  readonly takesOver: (launch: Launch) => boolean;
  /** A promise about tokens is given when the disk has it. */
  readonly waitsForDisk: boolean;
  /** A launch whose files cannot be read never starts again. */
  readonly givesUp: boolean;
  /** A host without tokens asks the fleet which it gave. */
  readonly heals: boolean;
}

/** Of a host. */
export interface Silence {
  readonly contact: Contact | undefined;
  /** When the last one ended, by the time since the boot. */
  readonly backAtMs: number;
}

export interface HostClock {
  readonly sinceBootMs: number;
  readonly wallMs: number;
  readonly bootId: number;
}

const JUST_BACK_MS = 60_000;

export const AGENT_RULES: AgentRules = {
  mayOrder: ({ workflowRunId, holder }, sender) =>
    workflowRunId === sender && holder.runId === sender,
  refusalOf: ({ seen, revoked }, token, mask) => {
    if (revoked.has(token)) return "revoked";
    return seen.some((known, gpu) => has(mask, gpu) && known > token) ? "higher seen" : undefined;
  },
  raise: ({ seen }, token, mask) =>
    seen.forEach((known, gpu) => {
      if (has(mask, gpu)) seen[gpu] = Math.max(known, token);
    }),
  revoke: ({ revoked }, token) => void revoked.add(token),
  isGangReady: ({ gang, host, token }, beats, isInDoubt) =>
    gang.every(
      (part) =>
        (part.host === host && !isInDoubt) ||
        beats.some((beat) => beat.host === part.host && beat.token === token),
    ),
  mayRun: (launch, bootId) => launch.phase === "started" && launch.bootId === bootId,
  isInTheWay: ({ order, phase }, next, mask) =>
    phase !== "over" &&
    (order.token < next.token || isFollowedBy(order, next)) &&
    (maskOn(order) & mask) !== 0,
  isCutOff: ({ terms, atSinceBootMs }, { sinceBootMs }) =>
    terms.onSilence === "fence" && sinceBootMs - atSinceBootMs > terms.fenceMs,
  isOutOfContact: (contact, { sinceBootMs }) =>
    contact?.terms.onSilence === "fence" &&
    sinceBootMs - contact.atSinceBootMs > contact.terms.silenceMs,
  isJustBack: ({ contact, backAtMs }, { sinceBootMs }) =>
    sinceBootMs - backAtMs < JUST_BACK_MS ||
    (contact !== undefined && sinceBootMs - contact.atSinceBootMs > contact.terms.silenceMs),
  notesRefusals: true,
  isFromBefore: (givenAtMs, { answeredFromMs }) => givenAtMs < answeredFromMs,
  endsStrays: true,
  stopWaits: true,
  isOrdered: ({ order: known }, order) =>
    known.taskBatch?.tasks.join() === order.taskBatch?.tasks.join(),
  takesOver: ({ phase }) => phase !== "stored",
  waitsForDisk: true,
  givesUp: true,
  heals: true,
};

const has = (mask: number, gpu: number): boolean => (mask >>> gpu) % 2 === 1;

/** This host's GPUs in an order; 0 when it has none. */
export const maskOn = ({ gang, host }: RunOrder): number =>
  gang.find((part) => part.host === host)?.mask ?? 0;

/** Whether the second is a later batch of the first one's lease. */
export const isFollowedBy = (earlier: RunOrder, later: RunOrder): boolean =>
  earlier.leaseId === later.leaseId && (earlier.taskBatch?.seq ?? 0) < (later.taskBatch?.seq ?? 0);
