/**
 * @file Starts the control plane's workers on servers that do not start them: looks for tasks that no worker takes.
 *
 * It looks at one queue at a time, in turns, at most once a second; it skips a role whose worker is known to run. Timers need
 * no special care: the server turns a due timer into a task. Activity tasks of the fleet and of jobs rarely wait (a worker died
 * between two steps), so it looks for them every eighth time; for solvers, which run only activities, every second time. Its
 * inputs and effects are ports.
 */

import type { TaskKind } from "./backlog.ts";
import { CONTROL_ROLES, siblingOf, type ControlRole } from "./places.ts";

export interface SupervisorPorts {
  /** Tasks that wait for the role's workers. */
  readonly backlog: (role: ControlRole, kind: TaskKind) => Promise<number>;
  /** Whether a worker of the role is known to run; false when that cannot be known. */
  readonly isServed: (role: ControlRole) => boolean;
  readonly start: (role: ControlRole) => void;
  readonly nowMs: () => number;
  /** Ends early when the supervisor is stopped. */
  readonly pause: (lengthMs: number) => Promise<void>;
  readonly onTrouble: (error: unknown) => void;
}

export interface SupervisorPace {
  readonly lookEveryMs: number;
  /** Time that a started role has before it is started again. */
  readonly coolOffMs: number;
}

export const SUPERVISOR_PACE: SupervisorPace = Object.freeze({
  lookEveryMs: 1_000,
  coolOffMs: 10_000,
});

/** Pause after a failed look; the server may be away for long. */
const TROUBLE_PAUSE_MS = 5_000;
const ACTIVITIES_EVERY = 8;
const SOLVER_EVERY = 2;

interface Look {
  readonly role: ControlRole;
  readonly kind: TaskKind;
}

/** Looked at one after the other, round and round. */
const LOOKS: readonly Look[] = Array.from({ length: ACTIVITIES_EVERY }, (_, turn): Look[] => {
  const kind = turn === ACTIVITIES_EVERY - 1 ? "activity" : "workflow";
  const solver: Look = { role: "solver", kind: "activity" };
  const isSolvers = turn % SOLVER_EVERY === SOLVER_EVERY - 1;
  return [{ role: "fleet", kind }, { role: "jobs", kind }, ...(isSolvers ? [solver] : [])];
}).flat();

/** Runs until `signal` is aborted. */
export async function supervise(
  ports: SupervisorPorts,
  { lookEveryMs, coolOffMs }: SupervisorPace,
  signal: AbortSignal,
): Promise<void> {
  const startedAtMs = new Map<ControlRole, number>();
  for (let look = 0; !signal.aborted; look += 1) {
    const { role, kind } = LOOKS[look % LOOKS.length] ?? { role: "jobs", kind: "workflow" };
    const isCooling = ports.nowMs() - (startedAtMs.get(role) ?? -Infinity) < coolOffMs;
    let pauseMs = lookEveryMs;
    try {
      if (!ports.isServed(role) && !isCooling && (await ports.backlog(role, kind)) > 0) {
        // A job asks its fleet, and a fleet answers its jobs: where one is wanted, the other is soon.
        const missing = CONTROL_ROLES.filter(
          (each) => each === role || (each === siblingOf(role) && !ports.isServed(each)),
        );
        for (const wanted of missing) {
          startedAtMs.set(wanted, ports.nowMs());
          ports.start(wanted);
        }
      }
    } catch (error) {
      ports.onTrouble(error);
      pauseMs = TROUBLE_PAUSE_MS;
    }
    await ports.pause(pauseMs);
  }
}
