/**
 * @file Sweeps up after a job that is gone: a stop order to each host of its lease until the host says that nothing runs there.
 *
 * The stop revokes the lease's token on the host, so that a start that is still on its way comes to nothing. A host that is silent is
 * asked again, with a growing pause, until it answers or the fleet no longer waits for it (it was fenced). A pass asks all hosts that are
 * left, and the next one begins when each of them was answered for. Rare: most jobs end by themselves, and their last entry names every host.
 */

import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { SweepInput } from "../../protocol/fleet.ts";
import type { Machine, Step, Tick } from "../machine.ts";

const PAUSE_MS = 2_000;
const PAUSE_MAX_MS = 300_000;
/** A pass costs about thirty events for each host. */
const PASSES_PER_RUN = 100;

export interface Sweep {
  readonly input: SweepInput;
  /** Hosts that have not confirmed, in the order of the input. */
  readonly left: readonly HostId[];
  /** Hosts of the present pass that are still to be answered for; empty between passes. */
  readonly open: readonly HostId[];
  readonly pass: number;
  readonly pauseMs: number;
  /** The next pass begins then. */
  readonly resumeAtMs?: number;
  /** Over: every host has confirmed or the fleet no longer waits, or a new run is to go on with `next`. */
  readonly end?: { readonly next?: SweepInput };
}

export type SweepEvent =
  | { readonly kind: "found"; readonly host: HostId; readonly agent: AgentAddress | null }
  | { readonly kind: "stopped"; readonly host: HostId; readonly isConfirmed: boolean }
  | { readonly kind: "told"; readonly host: HostId }
  | { readonly kind: "lease-checked"; readonly isHeld: boolean };

export type SweepCommand =
  | { readonly kind: "find"; readonly host: HostId }
  | { readonly kind: "stop"; readonly host: HostId; readonly agent: AgentAddress }
  /** The host has confirmed: the fleet is to know. */
  | { readonly kind: "tell"; readonly host: HostId }
  | { readonly kind: "check-lease" };

type SweepStep = Step<Sweep, SweepCommand>;

export const openSweep = (input: SweepInput): SweepStep => {
  const left = [...new Set(input.hosts)];
  return beginPass({ input, left, open: [], pass: 0, pauseMs: PAUSE_MS });
};

export const sweepMachine: Machine<Sweep, SweepEvent, SweepCommand> = {
  step: (state, event, nowMs) =>
    state.end === undefined ? stepped(state, event, nowMs) : { state, commands: [] },
  dueAtMs: ({ resumeAtMs = Infinity }) => resumeAtMs,
};

function stepped(state: Sweep, event: SweepEvent | Tick, nowMs: number): SweepStep {
  switch (event.kind) {
    case "found": {
      const { host, agent } = event;
      if (agent === null) return closed(state, host);
      return { state, commands: [{ kind: "stop", host, agent }] };
    }
    case "stopped": {
      const { host, isConfirmed } = event;
      // No answer is no proof: the host is asked again.
      if (!isConfirmed) return closed(state, host);
      const left = state.left.filter((each) => each !== host);
      return { state: { ...state, left }, commands: [{ kind: "tell", host }] };
    }
    case "told":
      return closed(state, event.host);
    case "lease-checked": {
      if (!event.isHeld) return { state: { ...state, end: {} }, commands: [] };
      const { pauseMs } = state;
      const next = Math.min(pauseMs * 2, PAUSE_MAX_MS);
      return { state: { ...state, pauseMs: next, resumeAtMs: nowMs + pauseMs }, commands: [] };
    }
    case "tick":
      return nowMs >= (state.resumeAtMs ?? Infinity) ? resumed(state) : { state, commands: [] };
  }
}

/** The host's part of this pass is over. */
function closed(state: Sweep, host: HostId): SweepStep {
  const open = state.open.filter((each) => each !== host);
  if (open.length > 0) return { state: { ...state, open }, commands: [] };
  const isOver = state.left.length === 0 || state.pass >= (state.input.passes ?? Infinity);
  if (isOver) return { state: { ...state, open, end: {} }, commands: [] };
  return { state: { ...state, open }, commands: [{ kind: "check-lease" }] };
}

function resumed({ resumeAtMs: _resumed, ...state }: Sweep): SweepStep {
  if (state.pass < PASSES_PER_RUN) return beginPass(state);
  return {
    state: { ...state, end: { next: { ...state.input, hosts: state.left } } },
    commands: [],
  };
}

function beginPass(state: Sweep): SweepStep {
  if (state.left.length === 0) return { state: { ...state, end: {} }, commands: [] };
  return {
    state: { ...state, open: state.left, pass: state.pass + 1 },
    commands: state.left.map((host) => ({ kind: "find", host })),
  };
}
