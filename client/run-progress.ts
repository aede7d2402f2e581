/** @file The progress of each host of a running job, from the heartbeats that Temporal shows of its pending `run` activities. */

import type { Client } from "@temporalio/client";
import { isNcclPlugins, type NcclPlugins } from "../domain/bandwidth/collective-evidence.ts";
import type { GpuUse } from "../domain/lease/gpu-use.ts";
import type { JobId } from "../domain/values/ids.ts";
import { decodedPayloads } from "./payloads.ts";
import { asked } from "./server-error.ts";

export interface RunProgress {
  readonly host?: string;
  /** `queued`: no agent has taken the run yet; `preparing`: an agent has; `pulling`: it fetches the image; the others as the agent reports. */
  readonly phase: "queued" | "preparing" | "pulling" | "prepared" | "running";
  readonly startedAtMs?: number;
  /** Bandwidth that the processes have measured so far. */
  readonly measuredGbs?: number;
  /** Typical time of a training step so far. */
  readonly stepMs?: number;
  /** What NCCL has loaded of the collectives plugin there; absent while unknown. */
  readonly ncclPlugins?: NcclPlugins;
  /** The port of rank 0, as its host says it. */
  readonly masterPort?: number;
  /** Address and plan of its model service. */
  readonly served?: { readonly url: string; readonly line: string };
  /** Deliveries of the task to an agent; above 1 an agent was restarted. */
  readonly tries: number;
  readonly lastFailure?: string;
  /** Of the job's GPUs there, where the machine shows it. */
  readonly gpuUse?: readonly (GpuUse & { readonly gpu: number })[];
}

export interface ProgressOptions {
  /** Without the use of GPUs, for callers that ask again and again: the job and the presence of its hosts are asked nothing. The submit service always tells it. */
  readonly isBrief?: boolean;
}

export async function runProgress(client: Client, jobId: JobId): Promise<readonly RunProgress[]> {
  const workflow = client.workflow.getHandle(jobId);
  const { raw } = await asked(client, `job ${jobId}`, () => workflow.describe());
  const runs = (raw.pendingActivities ?? []).filter(
    ({ activityType }) => activityType?.name === "run",
  );
  return await Promise.all(
    runs.map(async ({ heartbeatDetails, attempt, lastFailure, lastStartedTime }) => {
      const [details] = await decodedPayloads(client, heartbeatDetails?.payloads ?? [], jobId);
      const { phase, ...said } = readHeartbeat(details);
      return {
        ...said,
        phase: phase ?? (lastStartedTime ? "preparing" : "queued"),
        tries: attempt ?? 1,
        ...(typeof lastFailure?.message === "string" && { lastFailure: lastFailure.message }),
      };
    }),
  );
}

/** A heartbeat is untrusted data; entries of another form are left out. */
function readHeartbeat(
  details: unknown,
): Partial<Omit<RunProgress, "tries" | "lastFailure" | "gpuUse">> {
  if (typeof details !== "object" || details === null) return {};
  const beat = new Map<string, unknown>(Object.entries(details));
  const host = beat.get("host");
  const phase = beat.get("phase");
  const startedAtMs = beat.get("startedAtMs");
  const measuredGbs = beat.get("measuredGbs");
  const stepMs = beat.get("stepMs");
  const ncclPlugins = beat.get("ncclPlugins");
  const masterPort = beat.get("masterPort");
  const served = servedIn(beat.get("served"));
  return {
    ...(typeof host === "string" && { host }),
    ...((phase === "pulling" || phase === "prepared" || phase === "running") && { phase }),
    ...(typeof startedAtMs === "number" && { startedAtMs }),
    ...(typeof measuredGbs === "number" && { measuredGbs }),
    ...(typeof stepMs === "number" && { stepMs }),
    ...(isNcclPlugins(ncclPlugins) && { ncclPlugins }),
    ...(typeof masterPort === "number" && { masterPort }),
    ...(served !== undefined && { served }),
  };
}

function servedIn(said: unknown): RunProgress["served"] {
  if (typeof said !== "object" || said === null || !("url" in said) || !("line" in said)) return;
  const { url, line } = said;
  return typeof url === "string" && typeof line === "string" ? { url, line } : undefined;
}
