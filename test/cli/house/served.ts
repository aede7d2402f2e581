/** @file A stand-in for Temporal of a fleet: which workflows it knows, how they ended, and the histories that refer to the store. */

import { WorkflowNotFoundError } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { cronScheduleId } from "../../../protocol/cron.ts";
import { JOB_WORKFLOW, LOBBY_WORKFLOW, fleetWorkflowId } from "../../../protocol/messages.ts";

/** `open`, or how and when it ended. */
export type Served = "open" | { readonly status: string; readonly closedMs: number };

export interface ServedFleet {
  readonly fleet: string;
  readonly jobs: Map<string, Served>;
  /** Runs of the fleet's workflow, the oldest first: what its first event and later ones hold. */
  readonly runs: readonly (readonly unknown[])[];
  /** Of each lobby's present run. */
  readonly lobbies: readonly (readonly unknown[])[];
  /** Files of jobs that run or wait. */
  readonly files?: ReadonlyMap<string, object>;
  /** Files of the jobs of schedules, by the schedules' names; one that is torn cannot be read. */
  readonly crons?: ReadonlyMap<string, object | "torn">;
  /** Called after each list of jobs. */
  readonly onListed?: () => void;
  /** Called before each answer on a job. */
  readonly onAsked?: (job: string) => void;
}

const TORN = {
  metadata: { encoding: Buffer.from("json/plain") },
  data: Buffer.from("{"),
};

export function temporalOf({
  fleet,
  jobs,
  runs,
  lobbies,
  files,
  crons = new Map(),
  onListed,
  onAsked,
}: ServedFleet): object {
  const fleetId = fleetWorkflowId(fleet);
  const histories = new Map<string, readonly object[]>();
  const eventsOf = (values: readonly unknown[], before: string): readonly object[] =>
    values.map((value, at) => {
      const payloads = { payloads: [defaultPayloadConverter.toPayload(value)] };
      return at === 0
        ? {
            workflowExecutionStartedEventAttributes: {
              input: payloads,
              continuedExecutionRunId: before,
            },
          }
        : { activityTaskCompletedEventAttributes: { result: payloads } };
    });
  runs.forEach((values, at) =>
    histories.set(
      `run-${String(at)}`,
      eventsOf(values, at === 0 ? "run-dropped" : `run-${String(at - 1)}`),
    ),
  );
  lobbies.forEach((values, at) => histories.set(`lobby-run-${String(at)}`, eventsOf(values, "")));
  const typedSearchAttributes = { get: () => undefined };
  const describe = (workflowId: string): object => {
    if (workflowId === fleetId) return { runId: `run-${String(runs.length - 1)}` };
    const lobby = /^lobby-(\d+)$/.exec(workflowId)?.[1];
    if (lobby !== undefined) return { runId: `lobby-run-${lobby}` };
    onAsked?.(workflowId);
    const job = jobs.get(workflowId);
    if (job === undefined) throw new WorkflowNotFoundError("not found", workflowId, undefined);
    return job === "open"
      ? { status: { name: "RUNNING" }, typedSearchAttributes }
      : {
          status: { name: job.status },
          closeTime: new Date(job.closedMs),
          typedSearchAttributes,
        };
  };
  return {
    options: {
      namespace: "default",
      loadedDataConverter: { payloadCodecs: [], payloadConverter: defaultPayloadConverter },
    },
    withDeadline: (_atMs: number, work: () => unknown) => work(),
    withAbortSignal: (_signal: AbortSignal, work: () => unknown) => work(),
    workflowService: {
      getWorkflowExecutionHistory: ({
        execution,
      }: {
        execution: { runId: string; workflowId: string };
      }) => {
        const file = files?.get(execution.workflowId);
        if (file !== undefined) {
          const input = { payloads: [defaultPayloadConverter.toPayload(file)] };
          const started = { workflowType: { name: JOB_WORKFLOW }, input };
          return Promise.resolve({
            history: { events: [{ workflowExecutionStartedEventAttributes: started }] },
          });
        }
        const events = histories.get(execution.runId);
        if (events === undefined)
          return Promise.reject(Object.assign(new Error("not found"), { code: 5 }));
        return Promise.resolve({ history: { events }, nextPageToken: new Uint8Array() });
      },
      listSchedules: () => {
        const own = [...crons.keys()].map((name) => ({ scheduleId: cronScheduleId(fleet, name) }));
        const schedules = [{ scheduleId: "of-somebody-else" }, ...own];
        return Promise.resolve({ schedules, nextPageToken: new Uint8Array() });
      },
      describeSchedule: ({ scheduleId }: { readonly scheduleId: string }) => {
        const file = crons.get(scheduleId.slice(cronScheduleId(fleet, "").length));
        const payload =
          file === "torn" ? TORN : defaultPayloadConverter.toPayload({ terms: { file } });
        const startWorkflow = { input: { payloads: [payload] } };
        return Promise.resolve({ schedule: { action: { startWorkflow } }, info: {} });
      },
    },
    workflow: {
      getHandle: (workflowId: string) => ({
        describe: async () => Promise.resolve(describe(workflowId)),
      }),
      async *list({ query }: { readonly query: string }) {
        await Promise.resolve();
        if (query.includes(`"${JOB_WORKFLOW}"`)) {
          for (const workflowId of [...(files?.keys() ?? [])]) yield { workflowId };
          onListed?.();
        }
        if (!query.includes(LOBBY_WORKFLOW)) return;
        for (const [at] of lobbies.entries())
          yield { workflowId: `lobby-${String(at)}`, memo: { fleet } };
        yield { workflowId: "lobby-of-another", memo: { fleet: "another" } };
      },
    },
  };
}
