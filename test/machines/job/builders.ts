/** @file Plays fleet, hosts and solver workers to a job's machine, so that each order of events can be made to happen. */

import type { JobSpec } from "../../../domain/job/job.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { GangRequest } from "../../../domain/lease/lease.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import type { PendingCode } from "../../../domain/values/codes.ts";
import { jobId, parseHostId, runId, type HostId } from "../../../domain/values/ids.ts";
import { jobDueAtMs, openJob, stepJob } from "../../../machines/job/job.ts";
import type {
  Job,
  JobCommand,
  JobEvent,
  JobOutcome,
  Stage,
} from "../../../machines/job/job-state.ts";
import type { Tick } from "../../../machines/machine.ts";
import type { RunReport } from "../../../protocol/agent-contract.ts";
import { JOB_RULES, type NotifyResult } from "../../../protocol/control-contract.ts";
import type { Grant } from "../../../protocol/job.ts";
import { specOf } from "../../domain/job-text.ts";

export const START_MS = 1_000_000;
export const HOST = parseHostId("alpha/a1");

export type Of<Kind extends JobCommand["kind"]> = Extract<JobCommand, { readonly kind: Kind }>;

export interface PlayedJob {
  readonly job: () => Job;
  readonly now: () => number;
  /** Feeds an event, and the ticks that are due at once. */
  readonly feed: (event: JobEvent | Tick) => void;
  /** Feeds several events of one moment before the job acts on them. */
  readonly together: (...events: readonly JobEvent[]) => void;
  /** Lets time pass up to the next time that the job waits for; false when it waits for none. */
  readonly wait: () => boolean;
  /** Lets so much time pass, without a tick. */
  readonly pass: (forMs: number) => void;
  /** Commands that were not answered yet, oldest first. */
  readonly open: <Kind extends JobCommand["kind"]>(kind: Kind) => readonly Of<Kind>[];
  readonly commands: readonly JobCommand[];
  /** The messages that fleets have had, with the fleet's workflow. */
  readonly told: readonly { readonly fleet: string; readonly entry: InboxEntry }[];
  readonly requests: () => readonly GangRequest[];
  readonly ends: () => readonly number[];
  /** Answers the message that is on its way, and those that follow. */
  readonly deliver: (result?: NotifyResult) => void;
  readonly deliverOne: (result?: NotifyResult) => void;
  /** Answers a command by an event. */
  readonly answer: (command: JobCommand, event: JobEvent) => void;
  readonly grant: (seq: number, more?: Partial<Grant["lease"]>) => JobEvent;
  readonly ran: (report: Partial<RunReport>, at?: Of<"run">) => void;
  readonly stopped: (at?: Of<"stop">) => void;
  readonly outcome: () => JobOutcome | undefined;
  readonly stage: () => Stage["kind"];
}

const FILE = { name: "played", gang: 2, run: { command: ["true"] } };
export const DELIVERED: NotifyResult = { kind: "delivered" };
export const NO_FLEET: NotifyResult = { kind: "no-fleet", message: "not found" };
const AGENT = { epoch: "1", runQueue: "run", orderQueue: "orders", address: "127.0.0.1" };

export interface Play {
  readonly file?: object;
  readonly spec?: Partial<JobSpec>;
  /** What the fleet answers to the first request. */
  readonly notified?: NotifyResult;
  readonly extras?: readonly "plan"[];
  /** How long after its submission its first task runs. */
  readonly lateMs?: number;
  /** Not yet admitted. */
  readonly isEntering?: boolean;
  readonly rules?: number;
}

export function playJob({
  file = {},
  spec = {},
  notified = DELIVERED,
  extras,
  lateMs = 0,
  isEntering,
  rules = JOB_RULES,
}: Play = {}): PlayedJob {
  let nowMs = START_MS;
  const opened = openJob(
    {
      jobId: jobId("played"),
      runId: runId("run-1"),
      home: "eu",
      submittedAtMs: START_MS - lateMs,
      isListed: false,
    },
    nowMs,
  );
  let job = opened.state;
  const commands: JobCommand[] = [...opened.commands];
  const answered = new Set<JobCommand>();
  const told: { fleet: string; entry: InboxEntry }[] = [];
  const step = (event: JobEvent | Tick): void => {
    const next = stepJob(job, event, nowMs);
    job = next.state;
    commands.push(...next.commands);
  };
  const settle = (): void => {
    for (let rounds = 0; jobDueAtMs(job) <= nowMs; rounds += 1) {
      if (rounds > 100) throw new Error(`the job is due again and again: ${job.stage.kind}`);
      step({ kind: "tick" });
    }
  };
  const open = <Kind extends JobCommand["kind"]>(kind: Kind): readonly Of<Kind>[] =>
    commands.filter(
      (command): command is Of<Kind> => command.kind === kind && !answered.has(command),
    );
  const deliverOne = (result = DELIVERED): void => {
    const [tell] = open("tell");
    if (tell === undefined) throw new Error("no message is on its way");
    answered.add(tell);
    told.push({ fleet: tell.fleetWorkflowId.slice("orbweaver-fleet-".length), entry: tell.entry });
    together({ kind: "told", id: tell.id, result });
  };
  const together = (...events: readonly JobEvent[]): void => {
    events.forEach(step);
    settle();
  };
  const played: PlayedJob = {
    job: () => job,
    now: () => nowMs,
    feed: (event) => {
      step(event);
      settle();
    },
    together,
    wait: () => {
      const dueAtMs = jobDueAtMs(job);
      if (dueAtMs === Infinity) return false;
      nowMs = Math.max(nowMs, dueAtMs);
      settle();
      return true;
    },
    pass: (forMs) => void (nowMs += forMs),
    open,
    commands,
    told,
    requests: () => told.flatMap(({ entry }) => (entry.kind === "request" ? [entry.request] : [])),
    ends: () => told.flatMap(({ entry }) => (entry.kind === "end" ? [entry.seq] : [])),
    deliverOne,
    answer: (command, event) => {
      answered.add(command);
      played.feed(event);
    },
    deliver: (result) => {
      while (open("tell").length > 0) deliverOne(result);
    },
    grant: (seq, more = {}) => ({ kind: "grant", offer: grantOf(seq, nowMs, more) }),
    ran: (more, at = open("run")[0]) => {
      if (at === undefined) throw new Error("nothing runs");
      const report = reportOf(at.host, nowMs, more);
      const outcome = { kind: "reported", report } as const;
      played.answer(at, { kind: "ran", id: at.id, host: at.host, outcome });
    },
    stopped: (at = open("stop")[0]) => {
      if (at === undefined) throw new Error("nothing is to be stopped");
      const report = { host: at.host, hadProcesses: true };
      const outcome = { kind: "confirmed", report } as const;
      played.answer(at, { kind: "stopped", id: at.id, host: at.host, outcome });
    },
    outcome: () => (job.stage.kind === "over" ? job.stage.outcome : undefined),
    stage: () => job.stage.kind,
  };
  if (isEntering !== true) {
    const read = { ...specOf({ ...FILE, ...file }), ...spec };
    played.feed({
      kind: "admission",
      admission: {
        kind: "admitted",
        rules,
        spec: read,
        notified: read.isHeld || read.after !== undefined ? { kind: "silent" } : notified,
        ...(extras !== undefined && { launchExtras: extras }),
      },
    });
  }
  return played;
}

export function grantOf(seq: number, nowMs: number, more: Partial<Grant["lease"]> = {}): unknown {
  const gpus = more.gpus ?? [{ host: HOST, mask: 0b11 }];
  return {
    seq,
    lease: {
      id: `lease-${seq}`,
      token: seq,
      jobId: "played",
      runId: "run-1",
      seq,
      class: "training",
      tenant: "default",
      grantedAtMs: nowMs,
      state: "granted",
      ...more,
      gpus,
    },
    agents: gpus.map(({ host }) => ({ host, agent: AGENT })),
    reason: "played",
  };
}

export const reportOf = (
  host: HostId,
  nowMs: number,
  more: Partial<RunReport> = {},
): RunReport => ({
  host,
  hasStarted: true,
  startedAtMs: nowMs,
  endedAtMs: nowMs,
  ranks: [],
  end: "completed",
  ...more,
});

export const failedBy = (code: "PROCESS_EXITED" | "COMMAND_NOT_FOUND"): Partial<RunReport> => ({
  end: "failed",
  cause: { code, message: `because of ${code}`, atMs: START_MS },
});

export const reasonOf = (code: PendingCode): PendingReason => ({
  code,
  message: `because of ${code}`,
  numbers: {},
  holders: [],
  wakeOn: ["timer"],
});

export const noteOf = (seq: number, code: PendingCode): JobEvent => ({
  kind: "pending",
  note: { seq, reason: reasonOf(code) },
});

export const preemptOrder = (lease: string, more: object = {}): JobEvent => ({
  kind: "preempt",
  order: { seq: 1, lease, forJob: "other", reason: "its GPUs are due", graceMs: 5_000, ...more },
});
