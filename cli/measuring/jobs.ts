/**
 * @file Measuring jobs: submits one for a host or a group, and collects its readings until it has ended.
 *
 * A job holds all GPUs of its hosts, so nothing else runs on them; it waits for them like any other job. Its id is written down
 * before it is submitted and removed after its readings are stored, so the next command finds it wherever this one was cut off.
 */

import { randomBytes } from "node:crypto";
import type { OrbweaverClient } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { HostShape } from "../../domain/fleet/fleet.ts";
import {
  MEASURE_ENV,
  parseReadingLine,
  type MeasuringOrder,
} from "../../domain/bandwidth/measuring.ts";
import type { Results } from "./results.ts";

export interface MeasuringJob {
  readonly hosts: readonly HostShape[];
  readonly order: MeasuringOrder;
}

export interface JobTerms {
  readonly client: OrbweaverClient;
  readonly results: Results;
  readonly tenant?: string;
  /** argv of the program that the job runs on each host. */
  readonly runner: readonly string[];
}

/** Attempts that failed by themselves; preemptions and lost hosts are not counted. */
const ATTEMPTS = 3;

export async function submitMeasuring(
  { hosts, order }: MeasuringJob,
  { client, results, tenant, runner }: JobTerms,
): Promise<string> {
  const [first] = hosts;
  const name = `measure-${(first?.id ?? "none").replace("/", "-")}`.slice(0, 60);
  const jobId = `${name}-${randomBytes(4).toString("hex")}`;
  results.setOpenJobs([...results.openJobs(), jobId]);
  await client.submit(
    {
      name,
      ...(tenant !== undefined && { tenant }),
      class: "training",
      gang: { gpus: hosts.reduce((sum, { gpuCount }) => sum + gpuCount, 0) },
      constraints: {
        hosts: hosts.map(({ id }) => id),
        ...(hosts.length === 1 && { sameHost: true }),
      },
      run: {
        launch: "per-host",
        command: [...runner],
        env: { [MEASURE_ENV]: JSON.stringify(order) },
      },
      retry: { attempts: ATTEMPTS },
    },
    { idempotencyKey: jobId },
  );
  return jobId;
}

export interface Gathered {
  readonly jobId: string;
  readonly readings: number;
  /** Absent of a job that completed. */
  readonly problem?: string;
}

/** Follows the job to its end; calls `onReading` with each new reading. */
export async function gather(
  jobId: string,
  { client, results }: Pick<JobTerms, "client" | "results">,
  onReading: () => void,
): Promise<Gathered> {
  const job = client.job(jobId);
  let rest = "";
  let readings = 0;
  const take = (line: string): void => {
    const reading = parseReadingLine(line);
    if (reading === undefined || !results.add(reading)) return;
    readings += 1;
    onReading();
  };
  const done = (problem?: string): Gathered => {
    results.setOpenJobs(results.openJobs().filter((each) => each !== jobId));
    return { jobId, readings, ...(problem !== undefined && { problem }) };
  };
  try {
    for await (const text of job.logs({ follow: true })) {
      const lines = `${rest}${text}`.split("\n");
      rest = lines.pop() ?? "";
      lines.forEach(take);
    }
    take(rest);
    const outcome = await job.outcome();
    if (outcome.kind === "completed") return done();
    return done("message" in outcome ? outcome.message : `it was ${outcome.kind}`);
  } catch (error) {
    // Written down, but the command was cut off before the submission.
    if (error instanceof OrbweaverError && error.code === "NOT_FOUND") return done();
    throw error;
  }
}
