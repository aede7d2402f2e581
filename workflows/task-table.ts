/**
 * @file The tasks of an array: where each stands, which are next, and how often each was tried.
 *
 * Typed arrays, because an array may have 100,000 tasks and lives in a workflow's memory: some 30 bytes a task. Tasks wait in line
 * by number; one that comes back goes before those that were never tried, so that an array does not keep its trouble for the end.
 * Hidden mutable state, changed by the functions below alone. Cost: O(1) a task and change, O(tasks looked at) a page.
 */

import type { TaskEnd } from "../activities/agent-contract.ts";
import { TASK_STATES, type TaskCounts, type TaskState, type TaskView } from "./messages.ts";

/** Where tasks were sent: a lease. */
export type TaskPlace = Pick<TaskView, "host" | "leaseId" | "orderQueue">;

export interface TaskTable {
  readonly counts: () => TaskCounts;
  /** Tasks that may be handed out now. */
  readonly available: () => number;
  readonly stateOf: (task: number) => TaskState;
  /** The next tasks in line; they count as running from here on. */
  readonly take: (most: number, place: TaskPlace) => readonly number[];
  /** How a try ended that counts as an end of the task. */
  readonly end: (task: number, state: "completed" | "failed" | "cancelled", how?: TaskEnd) => void;
  /** Back to waiting, and into the line unless it is to pause first; `resume` puts it there. */
  readonly giveBack: (
    task: number,
    how?: { readonly isPaused?: true; readonly hasRun?: true },
  ) => void;
  readonly resume: (tasks: readonly number[]) => void;
  /** Counts one more failure; answers how many there were. */
  readonly charge: (task: number, whom: "task" | "host") => number;
  readonly forgive: (task: number) => void;
  readonly page: (query: { from: number; count: number; state?: TaskState }) => readonly TaskView[];
  readonly firstFailed: (most: number) => readonly TaskView[];
}

/** Failed tasks whose last lines are kept; the output itself is on the hosts. */
const MAX_MESSAGES = 1_000;
const NO_EXIT_CODE = -1;
const MAX_CHARGE = 255;

export function createTaskTable(count: number): TaskTable {
  const states = new Uint8Array(count);
  const isInLine = new Uint8Array(count).fill(1);
  const attempts = new Uint16Array(count);
  const charged = new Uint8Array(count);
  const uncharged = new Uint8Array(count);
  const exitCodes = new Int16Array(count).fill(NO_EXIT_CODE);
  const places = new Int32Array(count).fill(-1);
  const startedAtMs = new Float64Array(count);
  const endedAtMs = new Float64Array(count);
  const knownPlaces: TaskPlace[] = [];
  const texts = new Map<number, Pick<TaskEnd, "signal" | "message">>();
  const counts = TASK_STATES.map((_, state) => (state === 0 ? count : 0));
  let returned: number[] = [];
  let nextFresh = 0;
  let inLine = count;

  const stateOf = (task: number): TaskState => TASK_STATES[states[task] ?? 0] ?? "waiting";
  const move = (task: number, state: TaskState): void => {
    if (stateOf(task) === "waiting" && isInLine[task] === 1) inLine -= 1;
    const before = states[task] ?? 0;
    const after = TASK_STATES.indexOf(state);
    counts[before] = (counts[before] ?? 0) - 1;
    counts[after] = (counts[after] ?? 0) + 1;
    states[task] = after;
    if (state === "waiting" && isInLine[task] === 1) inLine += 1;
  };
  const join = (task: number): void => {
    if (isInLine[task] === 1 || stateOf(task) !== "waiting") return;
    isInLine[task] = 1;
    inLine += 1;
    returned.push(task);
  };
  const next = (): number | undefined => {
    const task =
      returned.length > 0 ? returned.shift() : nextFresh < count ? nextFresh++ : undefined;
    return task;
  };
  const viewOf = (task: number): TaskView => {
    const exitCode = exitCodes[task] ?? NO_EXIT_CODE;
    const place = knownPlaces[places[task] ?? -1];
    const { signal, message } = texts.get(task) ?? {};
    return {
      task,
      state: stateOf(task),
      attempts: attempts[task] ?? 0,
      ...place,
      ...((startedAtMs[task] ?? 0) > 0 && { startedAtMs: startedAtMs[task] }),
      ...((endedAtMs[task] ?? 0) > 0 && { endedAtMs: endedAtMs[task] }),
      ...(exitCode !== NO_EXIT_CODE && { exitCode }),
      ...(signal !== undefined && { signal }),
      ...(message !== undefined && { message }),
    };
  };
  const page: TaskTable["page"] = ({ from, count: most, state }) => {
    const views: TaskView[] = [];
    for (let task = from; task < count && views.length < most; task += 1) {
      if (state === undefined || stateOf(task) === state) views.push(viewOf(task));
    }
    return views;
  };

  return {
    counts: () => {
      const [waiting = 0, running = 0, completed = 0, failed = 0, cancelled = 0] = counts;
      return { waiting, running, completed, failed, cancelled };
    },
    available: () => inLine,
    stateOf,
    take: (most, place) => {
      const tasks: number[] = [];
      if (inLine === 0) return tasks;
      const at = knownPlaces.push(place) - 1;
      while (tasks.length < most) {
        const task = next();
        if (task === undefined) break;
        const isNext = stateOf(task) === "waiting";
        if (isNext) move(task, "running");
        isInLine[task] = 0;
        if (!isNext) continue;
        places[task] = at;
        startedAtMs[task] = 0;
        endedAtMs[task] = 0;
        tasks.push(task);
      }
      return tasks;
    },
    end: (task, state, how) => {
      if (how?.startedAtMs !== undefined) attempts[task] = (attempts[task] ?? 0) + 1;
      startedAtMs[task] = how?.startedAtMs ?? 0;
      endedAtMs[task] = how?.endedAtMs ?? 0;
      exitCodes[task] = how?.exitCode ?? NO_EXIT_CODE;
      texts.delete(task);
      const { signal, message } = how ?? {};
      if ((signal !== undefined || message !== undefined) && texts.size < MAX_MESSAGES) {
        texts.set(task, {
          ...(signal !== undefined && { signal }),
          ...(message !== undefined && { message }),
        });
      }
      move(task, state);
    },
    giveBack: (task, { isPaused, hasRun } = {}) => {
      if (hasRun === true) attempts[task] = (attempts[task] ?? 0) + 1;
      move(task, "waiting");
      if (isPaused !== true) join(task);
    },
    resume: (tasks) => {
      for (const task of tasks) join(task);
    },
    charge: (task, whom) => {
      const account = whom === "task" ? charged : uncharged;
      const failures = Math.min(MAX_CHARGE, (account[task] ?? 0) + 1);
      account[task] = failures;
      return failures;
    },
    forgive: (task) => {
      charged[task] = 0;
      uncharged[task] = 0;
    },
    page,
    firstFailed: (most) => page({ from: 0, count: most, state: "failed" }),
  };
}
