/**
 * @file Faults in which several things go wrong at one place: a host that is away while what runs there is ended, and copies of old orders that come
 * to a host which has lost its disk, or the folders of its launches.
 *
 * A copy is an order that the host has taken up once, and that a later one has followed on the same GPUs: its tokens alone tell it from a new one.
 */

import type { HostId } from "../domain/values/ids.ts";
import { requeueProblem } from "../machines/job/paused.ts";
import type { RunOrder, RunReport } from "../protocol/agent-contract.ts";
import type { Checker } from "./checker/checker.ts";
import { runOn } from "./hosts/agent.ts";
import { maskOn } from "./hosts/agent-rules.ts";
import type { Agents } from "./hosts/agents.ts";
import type { Host } from "./hosts/host.ts";
import type { Process } from "./kernel/process.ts";
import { STRANGE_BATCH } from "./settings.ts";
import type { Attempt } from "./temporal/activity.ts";
import type { Server } from "./temporal/server.ts";

export interface ScenePorts {
  readonly server: Server;
  readonly agents: Agents;
  readonly machines: ReadonlyMap<HostId, Process>;
  readonly checker: Checker;
}

export interface Scenes {
  /** Ends a job that runs on the host, or has its user cancel it. */
  readonly abandon: (host: Host, target: number, isCancelled: boolean) => void;
  /** Its user has a job that runs on the host run elsewhere, and cancels it after so long. */
  readonly leadAway: (host: Host, by: { readonly target: number; readonly thenMs: number }) => void;
  readonly sendCopies: (host: Host) => void;
  /** Far later than any that its array sends; to the first host from there on that runs a batch. */
  readonly sendNextBatch: (target: number) => void;
}

export function createScenes({ server, agents, machines, checker }: ScenePorts): Scenes {
  return {
    abandon: (host, target, isCancelled) => {
      const orders = [...host.running.values()];
      const id = orders[target % Math.max(1, orders.length)]?.jobId;
      if (id === undefined) return;
      server.kernel.tell("somebody", id, () => (isCancelled ? "cancel" : "terminate"));
      checker.noteOrder(id, isCancelled ? "cancel" : "terminate");
      if (isCancelled) server.signal(id, { name: "cancel" });
      else server.openRun(id)?.terminate();
    },
    leadAway: (host, { target, thenMs }) => {
      const orders = [...host.running.values()].filter(({ taskBatch }) => taskBatch === undefined);
      const id = orders[target % Math.max(1, orders.length)]?.jobId;
      if (id === undefined) return;
      server.kernel.tell("somebody", id, () => "requeue, then cancel");
      agents
        .site()
        .jobOf(id)
        ?.arrive({
          kind: "update",
          event: { kind: "requeue", order: { by: "somebody" } },
          problemOf: ({ job }) => requeueProblem(job),
          onAnswer: () => undefined,
        });
      server.kernel.after(thenMs, () => {
        checker.noteOrder(id, "cancel");
        server.signal(id, { name: "cancel" });
      });
    },
    sendCopies: (host) => {
      const process = machines.get(host.id);
      if (process?.isUp() !== true) return;
      for (const order of followed(agents.taken.filter((each) => each.host === host.id))) {
        server.kernel.tell("a stranger", host.id, () => `sends run ${order.leaseId} again`);
        process.spawn(copyOf(agents, process, order));
      }
    },
    sendNextBatch: (target) => {
      const running = [...agents.hosts.values()].flatMap(({ id, running: all }) => {
        const process = machines.get(id);
        return process?.isUp() === true
          ? [...all.values()].map((order) => ({ process, order, taskBatch: order.taskBatch }))
          : [];
      });
      const batches = running.filter(({ taskBatch }) => taskBatch !== undefined);
      const {
        process,
        order,
        taskBatch: present,
      } = batches[target % Math.max(1, batches.length)] ?? {};
      if (process === undefined || order === undefined || present === undefined) return;
      // To one host of a gang: no copy of an array's words is that, for all hosts have a batch before any has the next.
      if (order.gang.length > 1) return;
      const taskBatch = { ...present, seq: present.seq + STRANGE_BATCH };
      if (!checker.endedJobs().has(order.jobId)) checker.noteOrder(order.jobId, "strange-batch");
      server.kernel.tell("a stranger", order.host, () => `sends batch ${taskBatch.seq}`);
      process.spawn(copyOf(agents, process, { ...order, taskBatch }));
    },
  };
}

/** Orders that a later one has followed on one of their GPUs. */
const followed = (orders: readonly RunOrder[]): readonly RunOrder[] =>
  orders.filter((order) =>
    orders.some((later) => later.token > order.token && (maskOn(later) & maskOn(order)) !== 0),
  );

/** It seems to come from the run that has given it. */
const copyOf = (agents: Agents, process: Process, order: RunOrder) =>
  runOn(agents, strangers(process, agents.site().server.clockMs()), {
    order,
    sender: order.workflowRunId,
  });

/** An activity of a workflow that the stranger keeps open: nobody waits for its report. */
const strangers = (process: Process, givenAtMs: number): Attempt<RunReport> => ({
  process,
  heartbeatMs: undefined,
  givenAtMs,
  *beat() {
    return "known";
  },
  *finish() {
    return true;
  },
});
