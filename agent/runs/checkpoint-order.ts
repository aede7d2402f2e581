/**
 * @file Orders a checkpoint of a launch and waits for it: a signal to every local rank, or a command run beside them.
 *
 * The signal goes to the processes that the command started, not to their children: a launcher that does not handle it would
 * die of it. The command gets the environment of the first local rank. The order is done when a checkpoint lies complete below the run's token
 * that was not there before (see `checkpoints.ts`); a host that cannot see where rank 0 writes waits for the whole grace.
 * Of a batch of array tasks each running task is ordered to write its own; one that ends meanwhile has nothing to write.
 */

import { join } from "node:path";
import type { CheckpointRule } from "../../domain/job/job.ts";
import type { ImageRuntime } from "../../domain/job/job-image.ts";
import type { CheckpointMark, RunOrder } from "../../protocol/agent-contract.ts";
import { groupsOf, readContainer } from "../containment/container.ts";
import { completeIn, taskCheckpointDir, tokenDir } from "../folder/checkpoints.ts";
import type { LaunchPlan, LaunchStatus, RankStatus } from "../folder/launch-files.ts";
import { FINAL_KINDS, phaseOf, untilPhase, type LocalRun, type Phase } from "./local-run.ts";
import { isAliveIn, type Processes } from "../ports/processes.ts";
import type { Files } from "../ports/files.ts";
import { readJson } from "../folder/json-files.ts";
import { secretsOf } from "./rank-secrets.ts";
import { ranksOfTask } from "../shim/task-environment.ts";
import { readTurns } from "../folder/slot-journal.ts";

export interface CheckpointOutcome {
  readonly isComplete: boolean;
  readonly checkpoint?: CheckpointMark;
  readonly message: string;
}

const LOOK_MS = 100;
const NOTED_LOOK_MS = 10;
/** Of the grace: then those that are written down get the order all the same, and have the rest for their checkpoints. */
const NOTED_WITHIN = 1 / 4;

export async function orderCheckpoint(
  run: LocalRun,
  {
    checkpointDir,
    uid,
    signal,
  }: {
    readonly checkpointDir: string;
    /** Of the job's user, where that is not the agent's. */
    readonly uid: number | undefined;
    readonly signal: AbortSignal;
  },
): Promise<CheckpointOutcome> {
  const order = run.stored?.order;
  const rule = order?.run.checkpoint;
  const { clock } = run.system;
  let phase: Phase | undefined = phaseOf(run);
  // Its processes may run already without being written down yet.
  if (phase.kind === "starting") phase = await untilPhase(run, ["running", ...FINAL_KINDS], signal);
  if (order === undefined || phase?.kind !== "running")
    return { isComplete: false, message: `${run.leaseId} does not run here` };
  if (rule === undefined)
    return {
      isComplete: false,
      message: `${order.jobName} has no checkpoint rule in its run section`,
    };

  const orderedMs = clock.elapsedMs();
  const untilMs = orderedMs + rule.graceMs;
  const notedUntilMs = orderedMs + rule.graceMs * NOTED_WITHIN;
  while (!areRanksNoted(run) && !signal.aborted && clock.elapsedMs() < notedUntilMs)
    await clock.pause(NOTED_LOOK_MS, signal);
  const writers = writersOf(run, order, { status: phase.status, checkpointDir, uid });
  const sent = sendOrder(run, order, { rule: rule.order, writers });
  try {
    for (;;) {
      const made = writers.map((writer) => writer.made());
      const last = made.at(-1);
      if (made.every((mark) => mark !== undefined))
        return outcomeOf(order, last, `${made.length} tasks have written their checkpoints`);
      const trouble = sent.trouble();
      if (trouble !== undefined) return { isComplete: false, message: trouble };
      if (phaseOf(run).kind !== "running")
        return {
          isComplete: false,
          message: `${order.jobName} ended before a checkpoint was complete`,
        };
      if (signal.aborted)
        return { isComplete: false, message: "an order to stop at once came in between" };
      if (clock.elapsedMs() >= untilMs) {
        return {
          isComplete: false,
          message: `no new complete checkpoint appeared in ${missing(writers, made)} within its grace of ${rule.graceMs / 1000} s`,
        };
      }
      await clock.pause(LOOK_MS);
    }
  } finally {
    sent.end();
  }
}

/** False while an array task runs whose processes the journal does not name yet: no signal would reach them. */
const areRanksNoted = (run: LocalRun): boolean =>
  phaseOf(run).kind !== "running" ||
  [...readTurns(run.system.files, run.files.journal).values()].every(
    ({ isOver, status }) => isOver || status !== undefined,
  );

const outcomeOf = (
  { taskBatch }: RunOrder,
  last: CheckpointMark | "ended" | undefined,
  ofBatch: string,
): CheckpointOutcome =>
  taskBatch !== undefined || last === undefined || last === "ended"
    ? { isComplete: true, message: ofBatch }
    : { isComplete: true, checkpoint: last, message: `${last.path} is complete` };

const missing = (
  writers: readonly Writer[],
  made: readonly (CheckpointMark | "ended" | undefined)[],
): string => writers.flatMap(({ dir }, at) => (made[at] === undefined ? [dir] : [])).join(", ");

/** The ranks of the gang, or of one running array task, and where they write. */
interface Writer {
  readonly dir: string;
  readonly ranks: readonly RankStatus[];
  readonly env: Readonly<Record<string, string>>;
  /** The checkpoint that is new since the order; `ended` when none will come and none is missed. */
  made(): CheckpointMark | "ended" | undefined;
}

function writersOf(
  { files, system: { files: disk, processes } }: LocalRun,
  { token, taskBatch }: RunOrder,
  {
    status,
    checkpointDir,
    uid,
  }: {
    readonly status: LaunchStatus;
    readonly checkpointDir: string;
    readonly uid: number | undefined;
  },
): readonly Writer[] {
  const plan = readJson<LaunchPlan>(disk, files.plan);
  const secrets = ([first]: readonly RankStatus[]): Writer["env"] =>
    secretsOf(processes, plan ?? {}, first?.process);
  if (taskBatch === undefined) {
    const dir = tokenDir(checkpointDir, token);
    const env = { ...plan?.ranks[0]?.env, ...secrets(status.ranks) };
    return [{ dir, ranks: status.ranks, env, made: newIn(disk, dir, uid) }];
  }
  return [...readTurns(disk, files.journal)].flatMap(([task, turn]) => {
    if (turn.isOver) return [];
    const dir = tokenDir(taskCheckpointDir(checkpointDir, task), token);
    const made = newIn(disk, dir, uid);
    const isOver = (): boolean => readTurns(disk, files.journal).get(task)?.isOver === true;
    return {
      dir,
      ranks: turn.status?.ranks ?? [],
      env: {
        ...(plan !== undefined && envOfTask(plan, { task, slot: turn.slot, dir: files.dir })),
        ...secrets(turn.status?.ranks ?? []),
      },
      made: () => made() ?? (isOver() ? "ended" : undefined),
    };
  });
}

/** The newest checkpoint that was not there when this was called first. */
function newIn(
  disk: Files,
  dir: string,
  uid: number | undefined,
): () => CheckpointMark | undefined {
  const before = new Map(completeIn(disk, dir, uid).map(({ path, atMs }) => [path, atMs]));
  return () =>
    completeIn(disk, dir, uid)
      .filter(({ path, atMs }) => before.get(path) !== atMs)
      .at(-1);
}

function envOfTask(
  { batch }: LaunchPlan,
  {
    task,
    slot = 0,
    dir,
  }: { readonly task: number; readonly slot: number | undefined; readonly dir: string },
): Writer["env"] {
  const plan = batch?.tasks.find((each) => each.task === task);
  if (batch === undefined || plan === undefined) return {};
  const [first] = ranksOfTask(batch.slots[slot] ?? [], {
    plan,
    count: batch.count,
    launchDir: dir,
  });
  return first?.env ?? {};
}

function sendOrder(
  run: LocalRun,
  order: RunOrder,
  {
    rule,
    writers,
  }: { readonly rule: CheckpointRule["order"]; readonly writers: readonly Writer[] },
): SentOrder {
  const { files, system } = run;
  const runtime = readJson<LaunchPlan>(system.files, files.plan)?.image?.runtime;
  const sent =
    rule.kind === "signal"
      ? [
          signalRanks(
            system.processes,
            writers.flatMap(({ ranks }) => ranks),
            { signal: rule.signal, generation: runtime === undefined ? 0 : GENERATIONS[runtime] },
          ),
        ]
      : writers.map(({ env }) => startCommand(run, order, { command: rule.command, env }));
  return {
    trouble: () => sent.flatMap((each) => each.trouble() ?? []).at(0),
    end: () => {
      for (const each of sent) each.end();
    },
  };
}

/** An order that was sent. `trouble`: the reason why it failed; `end` takes it back. */
interface SentOrder {
  trouble(): string | undefined;
  end(): void;
}

/** How many processes of a runtime stand between a rank's own and its program, and pass no signals on. */
const GENERATIONS: Readonly<Record<ImageRuntime, number>> = {
  podman: 0,
  docker: 0,
  apptainer: 0,
  enroot: 0,
  bubblewrap: 2,
};

function signalRanks(
  processes: Processes,
  ranks: readonly RankStatus[],
  { signal, generation }: { readonly signal: string; readonly generation: number },
): SentOrder {
  let trouble: string | undefined;
  for (const { process: rank } of ranks) {
    if (rank === undefined || !isAliveIn(processes, rank)) continue;
    const refusal = processes.signal(descendant(processes, rank.pid, generation), signal);
    if (refusal !== undefined) trouble = `${signal} could not be sent: ${refusal}`;
  }
  return { trouble: () => trouble, end: () => undefined };
}

/** The process so many generations below; the last one there is where the program has not begun yet. */
function descendant(processes: Processes, pid: number, generation: number): number {
  const child =
    generation === 0 ? undefined : processes.all().find(({ ppid }) => ppid === pid)?.pid;
  return child === undefined ? pid : descendant(processes, child, generation - 1);
}

function startCommand(
  { files, system: { files: disk, processes } }: LocalRun,
  order: RunOrder,
  { command, env }: { readonly command: readonly string[]; readonly env: Writer["env"] },
): SentOrder {
  const plan = readJson<LaunchPlan>(disk, files.plan);
  let trouble: string | undefined;
  let hasEnded = false;
  const fail = (what: string): void => {
    trouble = `the checkpoint command of ${order.jobName} ${what}; see checkpoint.log in ${files.dir} on ${order.host}`;
  };
  const pid = processes.start({
    command: [...(plan?.asUser ?? []), ...(plan?.image?.words ?? []), ...command],
    cwd: plan?.cwd ?? files.dir,
    env,
    joins: groupsOf(readContainer(disk, files)),
    output: join(files.dir, "checkpoint.log"),
    onNotStarted: (error) => fail(`could not be started: ${error.message}`),
    onEnd: (end) => {
      hasEnded = true;
      if ("signal" in end) fail(`was killed by ${end.signal}`);
      else if (end.exitCode !== 0) fail(`ended with exit code ${end.exitCode}`);
    },
  });
  return {
    trouble: () => trouble,
    end: () => {
      if (!hasEnded && pid !== undefined) processes.signalGroup(pid, "SIGKILL");
    },
  };
}
