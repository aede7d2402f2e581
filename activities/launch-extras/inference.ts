/**
 * @file The provider of the inference part: plans a served model for the GPUs of its lease on a solver worker before the start.
 *
 * The same worker plans it over the GPUs of the lease from cold, with the topology that the fleet knows of the host; `status` shows that
 * plan. A gang that was degraded or moved gets the plan of its GPUs, because every run gets new launch extras. The model is read on the worker
 * by its path on the hosts; where the file is missing, the host plans for itself when it starts.
 */

import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { JobSpec } from "../../domain/job/job.ts";
import { SERVING_ENV } from "../../domain/job/serving-env.ts";
import { leaseHost, type LeaseHost } from "../../domain/model/lease-host.ts";
import { servingPlanLine, servingPlanText } from "../../domain/model/serving-plan.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { HostTopology } from "../../domain/values/topology.ts";
import type { GpuPlan } from "../serving-gpu-plan.ts";
import type { LaunchExtrasOrder } from "../../protocol/launch-extras-contract.ts";
import type { PlanModel } from "./kept-plans.ts";
import { servedDevices } from "./served-devices.ts";
import type { LaunchExtrasProvider } from "./provider.ts";

const PLAN_FILE = "serving-plan.json";
const DEADLINE_MS = 60_000;
/** Share of the deadline for timing the operators, and again for timing the parts. */
const TIMING_MS = 10_000;

export interface InferencePorts {
  /** The matrix of a host's GPUs; undefined where the fleet has none. */
  topologyOf(fleetWorkflowId: string, host: HostId): Promise<HostTopology | undefined>;
  readonly planModel: PlanModel;
}

export const inferenceProviderOver = (ports: InferencePorts): LaunchExtrasProvider => ({
  part: "inference",
  deadlineMs: DEADLINE_MS,
  async provide({ spec, gpus, fleetWorkflowId }, shape, signal) {
    const file = servedModel(spec);
    if (file === undefined) return undefined;
    if (!existsSync(file)) {
      throw new Error(`${file} is not on the machine that plans; the host plans when it starts`);
    }
    // What is only shown never costs the plan that is served.
    const lease = await hostOfLease({ fleetWorkflowId, gpus }, shape, ports).catch(
      (error: unknown): LeaseHost => {
        const why = error instanceof Error ? error.message : String(error);
        return { kind: "unknown", message: `the fleet does not say what the host is: ${why}` };
      },
    );
    const count = gpus.reduce((sum, { mask }) => sum + popCount(mask), 0);
    const devices = servedDevices({ gpus }, shape);
    const { answer, isKept } = await ports.planModel(
      {
        file,
        gpus: count,
        options: {
          budgetMs: TIMING_MS,
          ...(devices !== undefined && { devices }),
          ...(lease?.kind === "host" && { gpuHost: lease.host }),
        },
      },
      signal,
    );
    if (answer.kind === "refused") throw new Error(answer.message);
    const { plan, onGpus } = answer;
    return {
      env: { [SERVING_ENV.plan]: `{files}/${PLAN_FILE}` },
      files: [{ name: PLAN_FILE, text: servingPlanText(plan) }],
      message: [
        servingPlanLine(plan),
        ...(isKept ? ["planned for an earlier start"] : []),
        ...gpuRemark(lease, onGpus),
      ].join("; "),
      ...(onGpus?.kind === "planned" && { onGpus: onGpus.facts }),
    };
  },
});

/** The path of a served job's model. */
export const servedModel = ({ model, run }: JobSpec): string | undefined =>
  model === undefined ? undefined : resolve(run.workdir ?? "/", model);

/** The GPUs of a lease, which one host has; undefined when the fleet no longer has that host. */
export async function hostOfLease(
  { fleetWorkflowId, gpus }: Pick<LaunchExtrasOrder, "fleetWorkflowId" | "gpus">,
  { clusters }: FleetShape,
  { topologyOf }: Pick<InferencePorts, "topologyOf">,
): Promise<LeaseHost | undefined> {
  const [place] = gpus;
  const found = clusters.flatMap(({ hosts }) => hosts).find(({ id }) => id === place?.host);
  if (found === undefined || place === undefined) return undefined;
  const topology = await topologyOf(fleetWorkflowId, found.id);
  return leaseHost(found, { mask: place.mask, ...(topology !== undefined && { topology }) });
}

/** Why there is no plan over the GPUs, or what it assumes. */
function gpuRemark(lease: LeaseHost | undefined, onGpus: GpuPlan | undefined): readonly string[] {
  if (onGpus?.kind === "refused") return [`no plan over the GPUs: ${onGpus.message}`];
  if (lease === undefined) return [];
  if (lease.kind === "unknown") return [`no plan over the GPUs: ${lease.message}`];
  const { assumed } = lease;
  if (assumed.length === 0) return [];
  return [`assumed, since the fleet has no matrix of the host: ${assumed.join(", ")}`];
}
