/** @file The tasks of a job array as text: counts, leases, the first failures, a table of the requested tasks. */

import {
  OrbweaverError,
  type ArrayView,
  type JobHandle,
  type JobView,
  type TaskCounts,
  type TaskOrderAnswer,
  type TaskState,
  type TaskView,
} from "../../client/index.ts";
import { stateColour } from "../terminal/colour.ts";
import { counted, durationText } from "../terminal/duration.ts";
import { widthOf } from "../terminal/io.ts";
import type { CommandContext } from "./command-context.ts";
import type { JobChange } from "./each-job.ts";
import { hostsText } from "../text/place.ts";
import { tableText, type Column } from "../terminal/table.ts";

const STATES = [
  "running",
  "waiting",
  "completed",
  "failed",
  "cancelled",
] as const satisfies readonly TaskState[];
const PAGE = 1_000;
/** Leases that a screen shows. */
const MAX_LEASES = 20;
const MAX_NAMES_CHARS = 40;

/** `12 running, 900 waiting, 88 completed`. */
export const countsText = (counts: TaskCounts): string =>
  STATES.flatMap((state) => (counts[state] > 0 ? [`${String(counts[state])} ${state}`] : [])).join(
    ", ",
  );

interface TaskWords {
  /** What became of tasks, and why others were left alone. */
  readonly done: string;
  readonly left: string;
}

/** The result of an order to tasks, on a line of the terminal: `10 cancelled, 1 stopping, 3 had ended (4-6)`. */
export function taskAnswer(
  { io }: CommandContext,
  { jobId, answer }: { readonly jobId: string; readonly answer: TaskOrderAnswer },
  { done, left }: TaskWords,
): JobChange {
  const { done: count, stopping, skipped, skippedTasks } = answer;
  const parts = [
    ...(count > 0 || stopping + skipped === 0 ? [`${String(count)} ${done}`] : []),
    ...(stopping > 0 ? [`${String(stopping)} stopping`] : []),
    ...(skipped > 0 ? [`${String(skipped)} ${left}`] : []),
  ];
  const said = parts.join(", ");
  const room = widthOf(io.stdout) - `${jobId}  ${said} ()`.length;
  const state = said + namesOf(skippedTasks, Math.min(MAX_NAMES_CHARS, room));
  return { state, more: { tasks: answer } };
}

/** Whole ranges, as far as there is room; `--json` has more of them. */
function namesOf(tasks: string | undefined, room: number): string {
  if (tasks === undefined) return "";
  if (tasks.length <= room) return ` (${tasks})`;
  const end = room < 2 ? -1 : tasks.lastIndexOf(",", room - 2);
  return end < 0 ? "" : ` (${tasks.slice(0, end)},…)`;
}

/** The tasks that `--tasks [state]` selects; undefined when it is absent. */
export async function chosenTasks(
  job: JobHandle,
  { array, jobId, spec }: JobView,
  wanted: string | true | undefined,
): Promise<readonly TaskView[] | undefined> {
  if (wanted === undefined) return undefined;
  if (array === undefined && spec?.array !== undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `the ${counted(spec.array.count, "task")} of job ${jobId} have not begun: the array ended before the jobs had come for which it waited, or still waits for them under a former release's rules. \`orbweaver status ${jobId}\` shows them.`,
    );
  if (array === undefined)
    throw new OrbweaverError("NOT_ALLOWED", `job ${jobId} is not a job array, so it has no tasks`);
  const state = wanted === true || wanted === "all" ? undefined : taskState(wanted);
  const tasks: TaskView[] = [];
  for (let from = 0; from < array.count;) {
    const query = { from, count: PAGE, ...(state !== undefined && { state }) };
    const page = await job.tasks(query);
    tasks.push(...page.tasks);
    const last = page.tasks.at(-1);
    if (last === undefined || page.tasks.length < PAGE) break;
    from = last.task + 1;
  }
  return tasks;
}

function taskState(text: string): TaskState {
  const found = STATES.find((state) => state === text);
  if (found !== undefined) return found;
  throw new OrbweaverError(
    "BAD_INPUT",
    `${JSON.stringify(text)} is not a state of a task. Use ${STATES.join(", ")} or all.`,
  );
}

const TASK_COLUMNS: readonly Column[] = [
  { title: "TASK", isRight: true },
  { title: "STATE" },
  { title: "TRIES", isRight: true },
  { title: "HOST", least: 8 },
  { title: "LASTED", isRight: true },
  { title: "END", least: 10 },
];

export function tasksText(context: CommandContext, tasks: readonly TaskView[]): string {
  if (tasks.length === 0) return "no such tasks";
  const rows = tasks.map((task) => [
    String(task.task),
    stateColour(context.colours, task.state),
    String(task.attempts),
    task.host ?? "",
    task.startedAtMs === undefined || task.endedAtMs === undefined
      ? ""
      : durationText(task.endedAtMs - task.startedAtMs),
    endText(task),
  ]);
  return tableText(TASK_COLUMNS, rows, widthOf(context.io.stdout));
}

function endText({ state, exitCode, signal, message }: TaskView): string {
  if (state !== "failed") return "";
  return (
    signal ??
    (exitCode === undefined ? (message?.split("\n")[0] ?? "") : `exit ${String(exitCode)}`)
  );
}

const LEASE_COLUMNS: readonly Column[] = [
  { title: "LEASE" },
  { title: "WHERE", least: 12 },
  { title: "SLOTS", isRight: true },
  { title: "BATCH", isRight: true },
];

/** The part of `status` about an array, below its facts. */
export function arrayParts(
  context: CommandContext,
  { leases, firstFailed }: ArrayView,
): readonly string[] {
  const parts: string[] = [];
  if (leases.length > 0) {
    const rows = leases
      .slice(0, MAX_LEASES)
      .map(({ leaseId, gpus, slots, tasks }) => [
        leaseId,
        hostsText(gpus.map(({ host }) => host)),
        String(slots),
        String(tasks),
      ]);
    parts.push(tableText(LEASE_COLUMNS, rows, widthOf(context.io.stdout)));
  }
  if (firstFailed.length > 0) {
    const lines = firstFailed.map(
      ({ task, message = "failed" }) =>
        `task ${String(task)}: ${message.replaceAll("\n", "\n  | ")}`,
    );
    parts.push(["first failures:", ...lines].join("\n"));
  }
  return parts;
}
