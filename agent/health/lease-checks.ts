/**
 * @file An operator's programs around each launch: a prologue before its host is prepared, and an epilogue once nothing of it runs and before its GPUs
 * are free.
 *
 * One that fails is evidence against the host, as the operator's own word. A prologue that fails refuses the launch; after an epilogue that fails the GPUs
 * are free all the same, on a host that is set aside. Both have a time limit. Either may run twice for a launch, where an agent ends meanwhile.
 */

import { GPU_INDICES_VARIABLE } from "../../domain/job/job-env.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { visibleDevices, type HostGpu } from "../containment/host-gpus.ts";
import type { Clock } from "../ports/clock.ts";
import { instantText } from "./black-hole.ts";
import type { CheckResult } from "./health-checks.ts";
import { SET_ASIDE } from "./set-aside.ts";

export interface CheckProgram {
  /** argv, never a shell line. */
  readonly command: readonly string[];
  /** One that takes longer is killed, and has failed. */
  readonly timeoutMs: number;
  /** Beside PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>;
}

export const LEASE_MOMENTS = ["prologue", "epilogue"] as const;
export type LeaseMoment = (typeof LEASE_MOMENTS)[number];
export type LeaseChecks = Readonly<Partial<Record<LeaseMoment, CheckProgram>>>;

/** `called-off`: the signal came, or the agent ends. */
export type LeaseCheckResult = CheckResult | { readonly kind: "called-off" };

export interface LeaseCheckOf {
  readonly order: RunOrder;
  /** Places of the lease's GPUs on this host. */
  readonly gpus: readonly number[];
  readonly signal?: AbortSignal;
}

/** Passes where the operator names no program for the moment. Never fails. */
export type CheckLease = (moment: LeaseMoment, of: LeaseCheckOf) => Promise<LeaseCheckResult>;

export interface LeaseCheckPorts {
  readonly clock: Pick<Clock, "nowMs">;
  readonly closing: AbortSignal;
  readonly hostGpus?: readonly HostGpu[] | undefined;
  run(program: CheckProgram, signal: AbortSignal): Promise<CheckResult>;
  /** The host is to be set aside for this reason. */
  onFailed(reason: string): void;
}

export function leaseChecker(checks: LeaseChecks, ports: LeaseCheckPorts): CheckLease {
  return async (moment, { order, gpus, signal }) => {
    const program = checks[moment];
    if (program === undefined) return { kind: "passed" };
    const over = signal === undefined ? ports.closing : AbortSignal.any([ports.closing, signal]);
    if (over.aborted) return { kind: "called-off" };
    const env = variablesOf(order, { gpus, hostGpus: ports.hostGpus });
    const result = await ports.run({ ...program, env }, over);
    if (result.kind === "passed") return result;
    if (over.aborted) return { kind: "called-off" };
    const why = `${program.command[0] ?? ""} ${result.why}`;
    ports.onFailed(
      `${SET_ASIDE}${instantText(ports.clock.nowMs())}: the ${moment} of ${order.leaseId} failed: ${why}`,
    );
    return { kind: "failed", why };
  };
}

const variablesOf = (
  order: RunOrder,
  { gpus, hostGpus }: Pick<LeaseCheckOf, "gpus"> & Pick<LeaseCheckPorts, "hostGpus">,
): Record<string, string> => ({
  CUDA_VISIBLE_DEVICES: visibleDevices(gpus, hostGpus),
  [GPU_INDICES_VARIABLE]: gpus.join(","),
  ORBWEAVER_HOST: order.host,
  ORBWEAVER_JOB_ID: order.jobId,
  ORBWEAVER_LEASE_ID: order.leaseId,
  ORBWEAVER_TENANT: order.holder.tenant,
  ORBWEAVER_TOKEN: String(order.token),
});
