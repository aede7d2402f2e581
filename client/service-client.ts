/**
 * @file The client library over a submit service (`orbweaver api`) instead of Temporal: the same calls, decided there by the fleet's `access:`.
 *
 * What it answers with is taken as the service's word, as answers of workflows are by `orbweaver-client.ts`.
 */

import { MAX_JOB_FILE_BYTES } from "../domain/lease/job-size.ts";
import type { HostId, JobId } from "../domain/values/ids.ts";
import { unpackLedger } from "../scheduling/ledger/codec.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";
import type { FleetTrust } from "./agent-trust.ts";
import type { FencedHost } from "./fencing.ts";
import {
  parsedJobId,
  resultOf,
  type JobEnding,
  type JobExplanation,
  type JobHandle,
  type JobOutcome,
} from "./job-handle.ts";
import type { JobFilter } from "./job-filter.ts";
import type { ListedJob } from "./listed-job.ts";
import type { LogOptions } from "./log-options.ts";
import type { FleetClient } from "./orbweaver-client.ts";
import type { Rerun } from "./rerun.ts";
import type { PlannedDrain } from "../protocol/timed-drain.ts";
import type { RunProgress } from "./run-progress.ts";
import { answered, errorIn, opened, unreachable, type ServiceAddress } from "./service-request.ts";
import type { Submitted } from "./submission.ts";
import { submitAll } from "./submit-all.ts";
import type {
  AmendAnswer,
  AttemptView,
  JobState,
  JobView,
  MoveAnswer,
  TaskOrderAnswer,
  TaskPage,
} from "../protocol/messages.ts";

export type { ClientCertificate, ServiceAddress } from "./service-request.ts";

/** A job's page, as `GET /v1/jobs/{job}` answers. */
export interface ServiceJob {
  readonly view: JobView;
  readonly ending: JobEnding;
}

/** A line of a log, as `GET /v1/jobs/{job}/logs` streams them. */
export type ServiceLogLine =
  /** `lost`: a rank whose host has not answered. */
  | { readonly text: string; readonly lost?: number }
  | { readonly attempt: AttemptView }
  | { readonly attemptEnd: AttemptView }
  | { readonly dropped: readonly [rank: number, bytes: number] }
  | { readonly error: { readonly code: string; readonly message: string } }
  | { readonly isEnd: true };

/** The service answers in this time even if the job has not ended. */
const WAIT_S = 20;

/** `fleet`: its name, for messages; the service serves one. */
export function openServiceClient(address: ServiceAddress, fleet: string): FleetClient {
  // The service is of this release and of this project: its answers have the library's own types.
  const get = async <T>(path: string): Promise<T> =>
    (await answered(address, { method: "GET", path })) as T;
  const post = async <T>(path: string, body: object): Promise<T> =>
    (await answered(address, { method: "POST", path, body })) as T;
  const submit: FleetClient["submit"] = (job, { idempotencyKey, file, isQueuedAnyway } = {}) =>
    post<Submitted>("/v1/jobs", {
      job,
      ...(isQueuedAnyway === true && { isQueuedAnyway }),
      ...(idempotencyKey !== undefined && { idempotencyKey }),
      ...(file !== undefined && { file }),
    });
  const listed = async (filter: JobFilter = {}): Promise<readonly ListedJob[]> =>
    (
      await get<{ readonly jobs: readonly ListedJob[] }>(
        `/v1/jobs?filter=${encodeURIComponent(JSON.stringify(filter))}`,
      )
    ).jobs;
  const check: FleetClient["checkStarts"] = async (jobs) => {
    for (const some of inChecks(jobs)) await post("/v1/jobs/check", { jobs: some });
  };
  return {
    fleetName: fleet,
    submit,
    submitAll: (jobs, options) => submitAll(jobs, options, { submit, check }),
    checkStarts: check,
    job: (id) => jobOf(address, { id, get, post }),
    async *list(filter) {
      yield* await listed(filter);
    },
    async *listPages(filter) {
      yield await listed(filter);
    },
    fleet: async () => unpackLedger(await get<Parameters<typeof unpackLedger>[0]>("/v1/ledger")),
    trust: (_ledger: Ledger) => get<FleetTrust>("/v1/trust"),
    drain: async (hosts, reason) =>
      (await post<{ readonly hosts: readonly HostId[] }>("/v1/hosts/drain", { hosts, reason }))
        .hosts,
    drainGpus: async (named, reason) => {
      await post("/v1/hosts/drain-gpus", { ...named, reason });
    },
    undrainGpus: async (named) => {
      await post("/v1/hosts/undrain-gpus", named);
    },
    planDrain: async (hosts, plan) =>
      (
        await post<{ readonly hosts: readonly HostId[] }>("/v1/hosts/plan-drain", {
          hosts,
          ...plan,
        })
      ).hosts,
    plannedDrains: async () =>
      (await get<{ readonly drains: readonly PlannedDrain[] }>("/v1/hosts/plan-drain")).drains,
    undrain: async (hosts) =>
      (await post<{ readonly hosts: readonly HostId[] }>("/v1/hosts/undrain", { hosts })).hosts,
    holdQueue: async (queue, { reason, isDraining } = {}) => {
      await post("/v1/queue/hold", {
        queue,
        ...(reason !== undefined && { reason }),
        ...(isDraining !== undefined && { isDraining }),
      });
    },
    releaseQueue: async (queue) => {
      await post("/v1/queue/release", { queue });
    },
    fence: async (hosts, options = {}) =>
      (
        await post<{ readonly hosts: readonly FencedHost[] }>("/v1/hosts/fence", {
          hosts,
          ...options,
        })
      ).hosts,
  };
}

/** Of a request that asks whether jobs would start: a service reads no more of one. */
export const MOST_CHECKED = 1_000;

/** So many jobs at a time as a service takes in one request. */
function inChecks<Job>(jobs: readonly Job[]): readonly (readonly Job[])[] {
  const checks: Job[][] = [];
  let bytes = 0;
  for (const job of jobs) {
    const size = Buffer.byteLength(JSON.stringify(job));
    const last = checks.at(-1);
    bytes += size;
    if (last !== undefined && last.length < MOST_CHECKED && bytes <= MAX_JOB_FILE_BYTES) {
      last.push(job);
      continue;
    }
    checks.push([job]);
    bytes = size;
  }
  return checks;
}

interface JobPart {
  readonly id: string;
  readonly get: <T>(path: string) => Promise<T>;
  readonly post: <T>(path: string, body: object) => Promise<T>;
}

function jobOf(address: ServiceAddress, { id, get, post }: JobPart): JobHandle {
  const jobId = parsedJobId(id);
  const at = `/v1/jobs/${encodeURIComponent(jobId)}`;
  let asking: Promise<ServiceJob> | undefined;
  // Both halves are often asked for at once.
  const page = (): Promise<ServiceJob> =>
    (asking ??= get<ServiceJob>(at).finally(() => {
      asking = undefined;
    }));
  const ending = async (): Promise<JobEnding> => (await page()).ending;
  const outcome = async (): Promise<JobOutcome> => {
    for (;;) {
      const { ending: found } = await get<ServiceJob>(`${at}?wait=${String(WAIT_S)}`);
      if (found.outcome !== undefined) return found.outcome;
    }
  };
  return {
    jobId,
    view: async () => (await page()).view,
    ending,
    outcome,
    result: async () => resultOf(jobId, await outcome()),
    cancel: async (options = {}) => {
      await post(`${at}/cancel`, options);
    },
    rerun: ({ tasks, idempotencyKey, fromCheckpoint } = {}) =>
      post<Rerun>(`${at}/retry`, {
        ...(fromCheckpoint !== undefined && { fromCheckpoint }),
        ...(tasks !== undefined && { tasks }),
        ...(idempotencyKey !== undefined && { idempotencyKey }),
      }),
    tasks: ({ from, count, state }) =>
      get<TaskPage>(
        `${at}/tasks?from=${String(from)}&count=${String(count)}${state === undefined ? "" : `&state=${state}`}`,
      ),
    cancelTasks: (tasks) => post<TaskOrderAnswer>(`${at}/tasks/cancel`, { tasks }),
    retryTasks: (tasks) => post<TaskOrderAnswer>(`${at}/tasks/retry`, { tasks }),
    hold: async () => (await post<{ readonly state: JobState }>(`${at}/hold`, {})).state,
    release: async () => (await post<{ readonly state: JobState }>(`${at}/release`, {})).state,
    suspend: async () => (await post<{ readonly state: JobState }>(`${at}/suspend`, {})).state,
    requeue: async () => (await post<{ readonly state: JobState }>(`${at}/requeue`, {})).state,
    move: (to) => post<MoveAnswer>(`${at}/move`, { fleet: to }),
    amend: (settings, { isQueuedAnyway } = {}) =>
      post<AmendAnswer>(`${at}/amend`, {
        ...settings,
        ...(isQueuedAnyway === true && { isQueuedAnyway }),
      }),
    logs: (options = {}) => logsOf(address, { jobId, path: `${at}/logs` }, options),
    progress: async () =>
      (await get<{ readonly runs: readonly RunProgress[] }>(`${at}/progress`)).runs,
    explain: () => get<JobExplanation>(`${at}/explain`),
  };
}

async function* logsOf(
  address: ServiceAddress,
  { jobId, path }: { readonly jobId: JobId; readonly path: string },
  { task, rank, follow, tail, attempt, ...told }: LogOptions,
): AsyncGenerator<string> {
  const asked = { task, rank, follow, tail, attempt };
  const words = Object.entries(asked).flatMap(([name, value]) =>
    value === undefined ? [] : [`${name}=${String(value)}`],
  );
  const response = await opened(address, { method: "GET", path: `${path}?${words.join("&")}` });
  try {
    for await (const line of linesOf(response)) {
      if ("text" in line) {
        if (line.lost !== undefined) told.onLost?.(line.lost);
        yield line.text;
      } else if ("attempt" in line) told.onAttempt?.(line.attempt);
      else if ("attemptEnd" in line) told.onAttemptEnd?.(jobId, line.attemptEnd);
      else if ("dropped" in line) told.onDropped?.(...line.dropped);
      else if ("isEnd" in line) return;
      else throw errorIn(line) ?? unreachable(address, "its answer has another form");
    }
  } finally {
    response.destroy();
  }
  throw unreachable(address, "the log was cut off");
}

async function* linesOf(response: AsyncIterable<Buffer>): AsyncGenerator<ServiceLogLine> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const part of response) {
    const lines = (rest + decoder.decode(part, { stream: true })).split("\n");
    rest = lines.pop() ?? "";
    for (const line of lines) if (line !== "") yield JSON.parse(line) as ServiceLogLine;
  }
}
