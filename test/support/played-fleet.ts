/**
 * @file A real server and the real job workflow, with fleet and host played by the test, so that each order of events can be made to happen.
 */

import type { Client, WorkflowHandle } from "@temporalio/client";
import { Worker, type NativeConnection } from "@temporalio/worker";
import { randomBytes } from "node:crypto";
import path from "node:path";
import { expect } from "vitest";
import type { RunReport, StopOrder } from "../../protocol/agent-contract.ts";
import { createJobActivities } from "../../activities/job-activities.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import { fleetOf, ROOT, SMALL_FLEET } from "./world.ts";

export const HOST = fleetOf(SMALL_FLEET).shape.clusters[0]?.hosts[0]?.id ?? ("" as HostId);
const JOB = { name: "race", gang: { gpus: 1 }, run: { command: ["true"] } };

type Agent = { runQueue: string; orderQueue: string; epoch: string; address: string };

export interface PlayedFleet {
  /** What the job has told its fleet, in order. */
  readonly told: InboxEntry[];
  /** Which fleet it has told each; the first request is not among them. */
  readonly toldTo: { readonly fleet: string; readonly entry: InboxEntry }[];
  /** Leases under which `run` was called, and orders to stop. */
  readonly runs: string[];
  readonly stops: StopOrder[];
  /** How fleet and host behave; a test may change it at any time. */
  readonly played: {
    end: (seq: number) => Promise<void>;
    /** Returns when the fleet holds nothing of the job. */
    forgotten: (fleet: string) => Promise<void>;
    run: (leaseId: string) => Promise<RunReport>;
    stop: (order: StopOrder) => Promise<void>;
    agent: Agent | null;
    /** Whether the fleet has the lease that it is asked about. */
    hasLease: boolean;
  };
  readonly start: (job?: {
    readonly id?: string;
    readonly options?: unknown;
    readonly file?: object;
  }) => Promise<WorkflowHandle>;
  /** What the fleet would send for request `seq`. */
  readonly grantOf: (
    jobId: string,
    seq: number,
    hasAgent?: boolean,
  ) => { readonly seq: number; readonly lease: { readonly id: string } };
  readonly requests: () => readonly Extract<InboxEntry, { kind: "request" }>["request"][];
  readonly ends: () => readonly number[];
  readonly stopWorker: () => Promise<void>;
  readonly startWorker: () => Promise<void>;
}

export const report = (end: RunReport["end"], more: Partial<RunReport> = {}): RunReport => ({
  host: HOST,
  hasStarted: true,
  endedAtMs: Date.now(),
  ranks: [],
  end,
  ...more,
});

export async function playFleet({
  connection,
  client,
}: {
  readonly connection: NativeConnection;
  readonly client: Client;
}): Promise<PlayedFleet> {
  const queue = `races-${randomBytes(4).toString("hex")}`;
  const agent: Agent = { runQueue: queue, orderQueue: queue, epoch: "1", address: "127.0.0.1" };
  const { admit } = createJobActivities(client);
  const told: InboxEntry[] = [];
  const toldTo: PlayedFleet["toldTo"] = [];
  const runs: string[] = [];
  const stops: StopOrder[] = [];
  const played: PlayedFleet["played"] = {
    end: () => Promise.resolve(),
    forgotten: () => Promise.resolve(),
    run: () => Promise.resolve(report("completed")),
    stop: () => Promise.resolve(),
    agent,
    hasLease: true,
  };
  let worker: Worker | undefined;
  let running: Promise<void> | undefined;

  const fleet: PlayedFleet = {
    told,
    toldTo,
    runs,
    stops,
    played,
    start: ({ id = `race-${randomBytes(4).toString("hex")}`, options = {}, file = {} } = {}) =>
      client.workflow.start("job", {
        taskQueue: queue,
        workflowId: id,
        args: [{ ...JOB, ...file }, options],
      }),
    grantOf: (jobId, seq, hasAgent = true) => ({
      seq,
      lease: {
        id: `lease-${String(seq)}`,
        token: seq,
        jobId,
        runId: "played",
        gpus: [{ host: HOST, mask: 1 }],
        grantedAtMs: Date.now(),
        state: "granted",
      },
      agents: hasAgent ? [{ host: HOST, agent }] : [],
      reason: "played",
    }),
    requests: () => told.flatMap((entry) => (entry.kind === "request" ? [entry.request] : [])),
    ends: () => told.flatMap((entry) => (entry.kind === "end" ? [entry.seq] : [])),
    stopWorker: async () => {
      if (worker?.getState() === "RUNNING") worker.shutdown();
      await running;
    },
    startWorker: async () => {
      worker = await Worker.create({
        connection,
        taskQueue: queue,
        workflowBundle: { codePath: path.join(ROOT, "dist/workflow-bundle.js") },
        activities: {
          // Reading is the product's; the fleet is the test's: a held job asks nobody, then the first request is told here.
          admit: async (file: object, entry: Parameters<typeof admit>[1]) => {
            const admission = await admit({ ...file, hold: true }, entry);
            if (admission.kind === "refused") return admission;
            told.push({ kind: "request", request: { seq: 1 } } as InboxEntry);
            const spec = { ...admission.spec, isHeld: false };
            return { ...admission, spec, notified: { kind: "delivered" } };
          },
          tellFleet: async (workflowId: string, entry: InboxEntry) => {
            told.push(entry);
            toldTo.push({ fleet: workflowId.slice("orbweaver-fleet-".length), entry });
            if (entry.kind === "end") await played.end(entry.seq);
            return { kind: "delivered" };
          },
          untilForgotten: (workflowId: string) =>
            played.forgotten(workflowId.slice("orbweaver-fleet-".length)),
          findHost: () => Promise.resolve(played.agent),
          hasLease: () => Promise.resolve(played.hasLease),
          run: async ({ leaseId }: { leaseId: string }) => {
            runs.push(leaseId);
            return played.run(leaseId);
          },
          stop: async (order: StopOrder) => {
            stops.push(order);
            await played.stop(order);
            return { host: HOST, hadProcesses: false };
          },
        },
      });
      running = worker.run();
    },
  };
  await fleet.startWorker();
  return fleet;
}

export const eventually = (check: () => void): Promise<void> =>
  expect
    .poll(() => {
      check();
      return true;
    })
    .toBe(true);
