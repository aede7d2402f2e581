/**
 * @file The places of a world into which a test may plant a bug, to see that it is found: the machines, what workflows carry over, and the rules of
 * the model's agents.
 */

import type { ArrayCommand, ArrayEvent, JobArray } from "../machines/array/array-state.ts";
import type { FleetEvent, FleetCommand } from "../machines/fleet/events.ts";
import type { FleetState } from "../machines/fleet/state.ts";
import type { Job, JobCommand, JobEvent } from "../machines/job/job-state.ts";
import type { Lobby, LobbyCommand, LobbyEvent } from "../machines/lobby/lobby-state.ts";
import type { Machine } from "../machines/machine.ts";
import type { FleetInput } from "../protocol/fleet.ts";
import type { Presence, PresenceCommand, PresenceEvent } from "../machines/hosts/presence-state.ts";
import type { Sweep, SweepCommand, SweepEvent } from "../machines/hosts/sweep.ts";
import type { AgentRules } from "./hosts/agent-rules.ts";

type Wrap<State, Event, Command> = (
  machine: Machine<State, Event, Command>,
) => Machine<State, Event, Command>;

/** All absent in a world without planted bugs. */
export interface Planted {
  readonly fleet?: Wrap<FleetState, FleetEvent, FleetCommand>;
  readonly job?: Wrap<Job, JobEvent, JobCommand>;
  readonly array?: Wrap<JobArray, ArrayEvent, ArrayCommand>;
  readonly lobby?: Wrap<Lobby, LobbyEvent, LobbyCommand>;
  readonly presence?: Wrap<Presence, PresenceEvent, PresenceCommand>;
  readonly sweep?: Wrap<Sweep, SweepEvent, SweepCommand>;
  /** What a run of a fleet hands to the next one. */
  readonly carried?: (input: FleetInput) => FleetInput;
  readonly agent?: Partial<AgentRules>;
}
