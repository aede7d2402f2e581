/**
 * @file The form of every state machine in this room: a state and an event give the next state and the commands to carry out.
 *
 * A machine is pure: the same state, event and time give the same step. It knows nothing of Temporal. A workflow feeds events in and
 * carries commands out (`workflows/runtime/drive.ts`); a test, or a simulated world, does the same without a server. A command that is
 * answered carries an id, and its answer comes back as an event with that id. Time comes in as `nowMs` alone: a state says when it wants
 * to be looked at again, and then gets a `tick`.
 */

/** `commands` are carried out in their order, after the state has been taken over. */
export interface Step<State, Command> {
  readonly state: State;
  readonly commands: readonly Command[];
}

export interface Machine<State, Event, Command> {
  readonly step: (state: State, event: Event | Tick, nowMs: number) => Step<State, Command>;
  /** When the state wants a tick, in milliseconds since the epoch; 0 when events make it due at once, infinite when only events change it. */
  readonly dueAtMs: (state: State) => number;
  /**
   * The clock that the machine set when it last came to rest; undefined when none runs. A new object is a new clock. Only for a machine
   * with local activities whose end may come together with later events (docs/decisions/0014): the driver sets its timers by these
   * clocks alone, so both orders set the same ones. Without it the driver sets timers by `dueAtMs`.
   */
  readonly clockOf?: (state: State) => Clock | undefined;
}

export interface Clock {
  readonly atMs: number;
  /**
   * Nothing but its ring tells that this time has come. Without it a state may also turn out to be due when something else is fed, and the
   * end of a local activity may bring another time live than on replay (docs/decisions/0014).
   */
  readonly isAlone?: true;
}

/** Whether the state wants a tick now, its clock's ring aside. */
export const isDue = <State, Event, Command>(
  { dueAtMs, clockOf }: Machine<State, Event, Command>,
  state: State,
  nowMs: number,
): boolean => dueAtMs(state) <= (clockOf?.(state)?.isAlone === true ? 0 : nowMs);

/** Time has passed. */
export interface Tick {
  readonly kind: "tick";
}
