/**
 * @file The replicas of a service as jobs of its fleet: submitted from one file, known by a label, found where their hosts say that they run.
 *
 * A served .onnx model says its own address; an engine is asked at the port that the run was given, `MASTER_PORT`, on the address of its host. How many
 * requests an engine may have at once is what its plan says for the GPUs of its lease, the plan that its arguments came from.
 */

import type { FleetClient } from "../../client/index.ts";
import { serviceGoal } from "../../domain/job/job-engine.ts";
import { jobModel } from "../../domain/job/job-model.ts";
import type { JobFile } from "../../domain/job/job-file.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { fleetSite } from "../../planning/parallelism/fleet-site.ts";
import { hostInUrl } from "../../lib/url-host.ts";
import { planServing } from "../../planning/serving/plan-serving.ts";
import { replicaTerms, type ReplicaTerms } from "../../planning/serving/replica-terms.ts";
import { servingSite } from "../../planning/serving/serving-site.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { SERVICE_DEFAULTS } from "../serving/service-options.ts";
import { SERVICE_LABEL, SERVING_ENV } from "../../domain/job/serving-env.ts";
import type { ReplicaJobs, ReplicaLook } from "./replica-keeper.ts";

export interface ReplicaSource {
  readonly client: FleetClient;
  readonly job: JobFile;
  readonly spec: JobSpec;
  /** Six characters, other ones each time. */
  readonly suffix: () => string;
}

const PROBE_WITHIN_MS = 2_000;
/** One batch runs while the next one gathers. */
const BATCHES = 2;

export function jobReplicas({ client, job, spec, suffix }: ReplicaSource): ReplicaJobs {
  const labels = { ...job.labels, [SERVICE_LABEL]: spec.name };
  const healthPath = spec.engine === undefined ? "/healthz" : "/health";
  return {
    async list() {
      const found: string[] = [];
      const filter = {
        labels: [`${SERVICE_LABEL}=${spec.name}`],
        tenant: spec.tenant,
        isMine: true,
      } as const;
      for await (const { jobId } of client.list(filter)) found.push(jobId);
      return found;
    },
    async submit() {
      const idempotencyKey = `${spec.name}-${suffix()}`;
      const { jobId } = await client.submit({ ...job, labels }, { idempotencyKey });
      return jobId;
    },
    async look(id) {
      const handle = client.job(id);
      const [run] = await handle.progress({ isBrief: true });
      if (run === undefined) {
        const { outcome } = await handle.ending();
        if (outcome === undefined) return { kind: "starting" };
        return { kind: "ended", how: outcome.kind === "failed" ? outcome.message : outcome.kind };
      }
      if (run.phase !== "running" || run.host === undefined) return { kind: "starting" };
      if (spec.engine === undefined)
        return run.served === undefined
          ? { kind: "starting" }
          : { kind: "up", url: run.served.url, terms: onnxTerms(spec) };
      return run.masterPort === undefined
        ? { kind: "starting" }
        : engineLook(spec, await client.fleet(), { id, host: run.host, port: run.masterPort });
    },
    async cancel(id) {
      try {
        await client.job(id).cancel();
      } catch (error) {
        // It has ended by itself.
        if (!(error instanceof OrbweaverError && error.code === "NOT_FOUND")) throw error;
      }
    },
    async probe(url) {
      try {
        const answer = await fetch(new URL(healthPath, url), {
          signal: AbortSignal.timeout(PROBE_WITHIN_MS),
        });
        await answer.arrayBuffer();
        return answer.ok;
      } catch {
        // What does not answer is no replica yet, or none any more.
        return false;
      }
    },
  };
}

function onnxTerms({ run }: JobSpec): ReplicaTerms {
  const rows = Number(run.env[SERVING_ENV.maxBatch] ?? SERVICE_DEFAULTS.maxBatch);
  return { slots: BATCHES * rows, promptMs: 0, backlogMs: 0 };
}

interface EngineRun {
  readonly id: string;
  readonly host: string;
  readonly port: number;
}

function engineLook(spec: JobSpec, ledger: Ledger, { id, host, port }: EngineRun): ReplicaLook {
  const address = ledger.hosts.get(parseHostId(host))?.agent?.address;
  const lease = [...ledger.leases.values()].find(({ jobId }) => jobId === id);
  if (address === undefined || lease === undefined) return { kind: "starting" };
  const url = `http://${hostInUrl(address)}:${String(port)}`;
  return { kind: "up", url, terms: engineTerms(spec, lease.gpus, ledger) };
}

/** Of an engine that runs without a plan. */
const UNPLANNED: ReplicaTerms = Object.freeze({ slots: 16, promptMs: 0, backlogMs: 0 });

function engineTerms(
  spec: JobSpec,
  gpus: readonly HostGpus[],
  { shape }: Pick<Ledger, "shape">,
): ReplicaTerms {
  const named = jobModel(spec);
  if (named === undefined || spec.engine === undefined) return UNPLANNED;
  const found = servingSite(fleetSite(gpus, shape));
  if (found.kind === "blocked") return UNPLANNED;
  const goal = serviceGoal(spec.engine, named.shape);
  const answer = planServing({ ...named, site: found.site, goal });
  return answer.kind === "blocked" ? UNPLANNED : replicaTerms(answer.plan);
}
