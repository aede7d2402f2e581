/**
 * @file The floods by name: jobs with long constraints, small jobs, large arrays, small requests, junk signals, large job files, junk calls.
 *
 * None needs a GPU of the fleet: every request asks for a type or for clusters that it does not have. So a fleet under flood is idle.
 */

import type { JobFile } from "../../domain/job/job-file.ts";
import { MAX_TASKS } from "../../domain/job/task-ranges.ts";
import { fleetWorkflowId, JOB_TASK_QUEUE, JOB_WORKFLOW } from "../../protocol/messages.ts";
import { ATTACKER, callMany, type Flood, type FloodTarget } from "./flood.ts";
import { largeJobFile } from "./large-files.ts";

export const FLOODS = {
  /** Jobs, each with about 7 KiB of `constraints.clusters` that no other job has. */
  constraints: (target, size) =>
    callMany(size, (index) =>
      submit(target, `${size.label}-${String(index)}`, {
        name: "long-constraints",
        constraints: { clusters: [...names(CLUSTERS, `no-such-cluster-of-${String(index)}`)] },
      }),
    ),
  /** Small jobs of a client that submits as fast as it can. */
  jobs: (target, size) =>
    callMany(size, (index) =>
      submit(target, `${size.label}-${String(index)}`, {
        name: "small",
        constraints: { gpuTypes: [ABSENT_TYPE] },
      }),
    ),
  /** Arrays of as many tasks as one may have. */
  arrays: (target, size) =>
    callMany(size, (index) =>
      submit(target, `${size.label}-${String(index)}`, {
        name: "large-array",
        constraints: { gpuTypes: [ABSENT_TYPE] },
        array: { count: MAX_TASKS, parallel: MAX_TASKS },
      }),
    ),
  /** Small requests as a jobs' worker sends them, many in a signal, of jobs that nobody has started. */
  requests: async ({ temporal, fleet }, { count, inFlight, label }) => {
    const handle = temporal.workflow.getHandle(fleetWorkflowId(fleet));
    const signals = Math.ceil(count / ENTRIES);
    const taken = await callMany({ count: signals, inFlight }, (signal) =>
      handle.signal("inbox", names(ENTRIES, `${label}-${String(signal)}`).map(smallRequest)),
    );
    return taken * ENTRIES;
  },
  /** Signals of 100 bytes that say nothing. */
  junk: ({ temporal, fleet }, size) => {
    const handle = temporal.workflow.getHandle(fleetWorkflowId(fleet));
    return callMany(size, (index) => handle.signal("inbox", junkOf(index)));
  },
  /** Job files of a megabyte, given to the jobs' worker past the client library, which refuses them. */
  files: ({ temporal, fleet }, size) =>
    callMany(size, (index) =>
      temporal.workflow.start(JOB_WORKFLOW, {
        workflowId: `${size.label}-${String(index)}`,
        taskQueue: JOB_TASK_QUEUE,
        args: [largeJobFile(index), { fleet }],
      }),
    ),
  /** Updates and queries with wrong arguments, to the fleet. */
  calls: ({ temporal, fleet }, size) => {
    const handle = temporal.workflow.getHandle(fleetWorkflowId(fleet));
    return callMany(size, (index) => {
      const name = CALLS[index % CALLS.length] ?? "ledger";
      const args = [JUNK_ARGUMENTS[index % JUNK_ARGUMENTS.length]];
      return UPDATES.has(name)
        ? handle.executeUpdate(name, { args: args as [unknown] })
        : handle.query(name, ...args);
    });
  },
} as const satisfies Readonly<Record<string, Flood>>;

export type FloodName = keyof typeof FLOODS;

/** No fleet of a test or a bench has it. */
const ABSENT_TYPE = "GB300";
/** Names of about 28 bytes, with quotes and comma. */
const CLUSTERS = 250;
const ENTRIES = 500;

const names = (count: number, start: string): readonly string[] =>
  Array.from({ length: count }, (_, index) => `${start}-${String(index)}`);

const submit = (
  { orbweaver }: FloodTarget,
  key: string,
  file: Omit<JobFile, "gang" | "run" | "tenant">,
): Promise<unknown> =>
  orbweaver.submit(
    { ...file, tenant: ATTACKER, gang: { gpus: 1 }, run: { command: ["true"] } },
    { idempotencyKey: key, isQueuedAnyway: true },
  );

const smallRequest = (jobId: string): unknown => ({
  kind: "request",
  request: {
    jobId,
    runId: `run-of-${jobId}`,
    seq: 1,
    name: "small",
    tenant: ATTACKER,
    class: "training",
    priority: 0,
    gang: { gpus: 1, min: 1, timeoutMs: 0 },
    constraints: { gpuTypes: [ABSENT_TYPE], isSameHost: false, isSameFabric: false },
    submittedAtMs: Date.now(),
    requestedAtMs: Date.now(),
  },
});

const JUNK_BYTES = 100;
const junkOf = (index: number): unknown =>
  index % 2 === 0
    ? "x".repeat(JUNK_BYTES)
    : [{ kind: "junk", sender: `nobody-${String(index)}`, text: "x".repeat(JUNK_BYTES - 55) }];

const UPDATES = new Set(["drain", "undrain", "fence", "configure"]);
const CALLS = ["drain", "explain", "configure", "shape", "undrain", "host", "fence", "cluster"];
const JUNK_ARGUMENTS: readonly unknown[] = [
  null,
  { hosts: "all" },
  { hosts: [{}], reason: { toString: 1 } },
  { shape: { clusters: [{ hosts: [null] }] } },
  [[[[]]]],
  { hosts: names(20_000, "no/such") },
  "x".repeat(10_000),
];
