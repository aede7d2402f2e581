/** @file Plays fleet and hosts to an array's machine, so that each order of events can be made to happen. */

import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import { hostId, jobId, leaseId, runId, token, type LeaseId } from "../../../domain/values/ids.ts";
import type {
  ArrayCommand,
  ArrayEntry,
  ArrayEvent,
  JobArray,
} from "../../../machines/array/array-state.ts";
import { arrayView } from "../../../machines/array/array-view.ts";
import { arrayMachine, openArray } from "../../../machines/array/job-array.ts";
import type { GangCommand } from "../../../machines/gang/gang-commands.ts";
import type { RunOutcome } from "../../../machines/gang/gang-state.ts";
import { NOT_AMENDED } from "../../../machines/job/amended.ts";
import { NO_FOLLOWERS } from "../../../machines/job/followers.ts";
import type { JobOutcome } from "../../../machines/job/job-state.ts";
import type { Tick } from "../../../machines/machine.ts";
import type { RunReport, TaskEnd } from "../../../protocol/agent-contract.ts";
import { JOB_RULES, type NotifyResult } from "../../../protocol/control-contract.ts";
import { packEnds } from "../../../protocol/packed-ends.ts";
import type { Grant, JobView } from "../../../protocol/job.ts";
import { specOf } from "../../domain/job-text.ts";

export const START_MS = 1_000_000;
export const RUN = runId("run-1");
export const DELIVERED: NotifyResult = { kind: "delivered" };
export const NO_FLEET: NotifyResult = { kind: "no-fleet", message: "not found" };

export type Of<Kind extends ArrayCommand["kind"]> = Extract<ArrayCommand, { readonly kind: Kind }>;
export type GangOf<Kind extends GangCommand["kind"]> = Of<"gang"> & {
  readonly command: Extract<GangCommand, { readonly kind: Kind }>;
};

export interface PlayedArray {
  readonly array: () => JobArray;
  readonly view: () => JobView;
  readonly now: () => number;
  /** Feeds events of one moment, then the ticks that are due at once. */
  readonly feed: (...events: readonly (ArrayEvent | Tick)[]) => void;
  /** Lets time pass up to the next time that the array waits for, or for so long; false when it waits for none. */
  readonly wait: (forMs?: number) => boolean;
  readonly commands: readonly ArrayCommand[];
  /** Commands that were not answered yet, oldest first. */
  readonly open: <Kind extends ArrayCommand["kind"]>(kind: Kind) => readonly Of<Kind>[];
  readonly gang: <Kind extends GangCommand["kind"]>(kind: Kind) => readonly GangOf<Kind>[];
  /** Takes a command as answered, and answers it. */
  readonly answer: (command: ArrayCommand, event: ArrayEvent) => void;
  /** Answers the oldest message to the fleet. */
  readonly told: (result?: NotifyResult) => InboxEntry;
  /** Answers all messages to the fleet. */
  readonly deliver: () => readonly InboxEntry[];
  /** Every message that was given to the fleet so far. */
  readonly entries: () => readonly InboxEntry[];
  /** Ends the oldest run with these ends of its tasks, or with all of them completed. */
  readonly ran: (ends?: (task: number) => Partial<TaskEnd>, at?: GangOf<"run">) => void;
  /** As its host would report it, packed where the order asks for it. */
  readonly reportOf: (at: GangOf<"run">, ends?: (task: number) => Partial<TaskEnd>) => RunReport;
  readonly notRun: (outcome: RunOutcome, at?: GangOf<"run">) => void;
  readonly stopped: () => void;
  readonly batches: () => readonly (readonly number[])[];
  readonly outcome: () => JobOutcome | undefined;
}

export interface Play {
  readonly count?: number;
  readonly parallel?: number;
  readonly tasks?: string;
  readonly file?: object;
  readonly entry?: Partial<ArrayEntry>;
}

export function playArray({
  count = 10,
  parallel = count,
  tasks,
  file = {},
  entry = {},
}: Play = {}): PlayedArray {
  const spec = specOf({
    name: "played",
    gang: 1,
    run: { command: ["true"] },
    array: { count, parallel, ...(tasks !== undefined && { tasks }) },
    ...file,
  });
  let nowMs = START_MS;
  const opened = openArray(
    {
      rules: JOB_RULES,
      jobId: jobId("played"),
      runId: RUN,
      fleet: "eu",
      spec,
      rule: spec.array ?? { count, parallel },
      submittedAtMs: START_MS,
      entered: DELIVERED,
      isHeld: false,
      junkSignals: 0,
      isAsked: false,
      marks: 0,
      followers: NO_FOLLOWERS,
      amended: NOT_AMENDED,
      ...entry,
    },
    nowMs,
  );
  let array = opened.state;
  const commands: ArrayCommand[] = [...opened.commands];
  const answered = new Set<ArrayCommand>();
  const step = (event: ArrayEvent | Tick): void => {
    const next = arrayMachine.step(array, event, nowMs);
    array = next.state;
    commands.push(...next.commands);
  };
  const settle = (): void => {
    for (let rounds = 0; arrayMachine.dueAtMs(array) <= nowMs; rounds += 1) {
      if (rounds > 100) throw new Error("the array is due again and again");
      step({ kind: "tick" });
    }
  };
  const open: PlayedArray["open"] = (kind) =>
    commands.filter(
      (command): command is Of<typeof kind> => command.kind === kind && !answered.has(command),
    );
  const gang: PlayedArray["gang"] = (kind) =>
    open("gang").filter(
      (each): each is GangOf<typeof kind> => each.command.kind === kind, // by its kind
    );
  const oldest = <Each>(those: readonly Each[], what: string): Each => {
    const [first] = those;
    if (first === undefined) throw new Error(`${what} is not under way`);
    return first;
  };
  const played: PlayedArray = {
    array: () => array,
    view: () => arrayView(array),
    now: () => nowMs,
    feed: (...events) => {
      events.forEach(step);
      settle();
    },
    wait: (forMs) => {
      const dueAtMs = arrayMachine.dueAtMs(array);
      if (forMs === undefined && dueAtMs === Infinity) return false;
      nowMs = forMs === undefined ? Math.max(nowMs, dueAtMs) : nowMs + forMs;
      settle();
      return true;
    },
    commands,
    open,
    gang,
    answer: (command, event) => {
      answered.add(command);
      played.feed(event);
    },
    told: (result = DELIVERED) => {
      const message = oldest(open("tell"), "a message");
      played.answer(message, { kind: "told", id: message.id, result });
      return message.entry;
    },
    deliver: () => {
      const entries: InboxEntry[] = [];
      while (open("tell").length > 0) entries.push(played.told());
      return entries;
    },
    entries: () => commands.flatMap((each) => (each.kind === "tell" ? [each.entry] : [])),
    reportOf: ({ command: { host, order } }, ends = () => ({})) => {
      const { tasks: batch = [], mostTexts } = order.taskBatch ?? {};
      const tasks = batch.map((task): TaskEnd => {
        const times = { startedAtMs: nowMs, endedAtMs: nowMs + 10 };
        return { task, end: "completed", ...times, ...ends(task) };
      });
      const isWhole = tasks.every(({ end }) => end === "completed" || end === "failed");
      return {
        ...{ host, hasStarted: true, endedAtMs: nowMs, ranks: [] },
        end: isWhole ? "completed" : "stopped",
        ...(mostTexts === undefined ? { tasks } : { packedTasks: packEnds(tasks, mostTexts) }),
      };
    },
    ran: (ends = () => ({}), at = oldest(gang("run"), "a run")) =>
      played.notRun({ kind: "reported", report: played.reportOf(at, ends) }, at),
    notRun: (outcome, at = oldest(gang("run"), "a run")) => {
      const { id, host } = at.command;
      played.answer(at, {
        kind: "gang",
        lease: at.lease,
        answer: { kind: "ran", id, host, outcome },
      });
    },
    stopped: () => {
      const at = oldest(gang("stop"), "an order to stop");
      const { id, host } = at.command;
      const report = { host, hadProcesses: true };
      played.answer(at, {
        kind: "gang",
        lease: at.lease,
        answer: { kind: "stopped", id, host, outcome: { kind: "confirmed", report } },
      });
    },
    batches: () =>
      commands.flatMap((each) =>
        each.kind === "gang" && each.command.kind === "run"
          ? [each.command.order.taskBatch?.tasks ?? []]
          : [],
      ),
    outcome: () => (array.phase.kind === "over" ? array.phase.outcome : undefined),
  };
  settle();
  return played;
}

export const leaseNamed = (number: number): LeaseId => leaseId(token(number));

/** A grant of slots on one host of its own, or on the hosts named. */
export function grantOf(
  number: number,
  {
    seq = 1,
    slots = 4,
    hosts = [`h${number}`],
    atMs = START_MS,
    run = RUN,
  }: {
    readonly seq?: number;
    readonly slots?: number;
    readonly hosts?: readonly string[];
    readonly atMs?: number;
    readonly run?: typeof RUN;
  } = {},
): Grant {
  const names = hosts.map((host) => hostId("alpha", host));
  const lease = {
    id: leaseNamed(number),
    token: token(number),
    jobId: jobId("played"),
    runId: run,
    seq,
    class: "training",
    tenant: "default",
    slots,
    gpus: names.map((host) => ({ host, mask: 2 ** slots - 1 })),
    grantedAtMs: atMs,
    requestedAtMs: START_MS,
    state: "held",
  } as unknown as Grant["lease"]; // brands of the tenant
  return {
    seq,
    lease,
    reason: "fits",
    agents: names.map((host) => ({
      host,
      agent: { epoch: "1", runQueue: `run.${host}`, orderQueue: `orders.${host}`, address: "::1" },
    })),
  };
}

export const grants = (...offers: readonly Grant[]): ArrayEvent => ({ kind: "grants", offers });
