/**
 * @file An operator's programs around each launch: a prologue before its host is prepared, and an epilogue once nothing of it runs and before its GPUs
 * are free.
 *
 * One that fails is evidence against the host, as the operator's own word. A prologue that fails refuses the launch; after an epilogue that fails the GPUs
 * are free all the same, on a host that is set aside. Both have a time limit. Either may run twice for a launch, where an agent ends meanwhile.
 *
 * Before the epilogue the driver is asked whether a process that the launch has left still computes on its GPUs (`left-on-gpus.ts`). Then the host is set aside, too, and
 * until that process is gone no launch starts on these GPUs.
 */

import { GPU_INDICES_VARIABLE } from "../../domain/job/job-env.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type { GpuProcess } from "../../domain/fleet/parse-gpu-processes.ts";
import { uuidsOf, visibleDevices, type HostGpu } from "../containment/host-gpus.ts";
import type { Clock } from "../ports/clock.ts";
import type { ProcessIdentity } from "../ports/processes.ts";
import type { EndedLaunch } from "./left-on-gpus.ts";
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

/** `called-off`: the signal came, or the agent ends. A failure's `why` goes on after the host's name and a colon, with the remedy. */
export type LeaseCheckResult = CheckResult | { readonly kind: "called-off" };

export interface LeaseCheckOf {
  readonly order: RunOrder;
  /** Places of the lease's GPUs on this host. */
  readonly gpus: readonly number[];
  /** Of a launch that has ended. */
  readonly supervisor?: ProcessIdentity;
  readonly signal?: AbortSignal;
}

/** Passes where the operator names no program for the moment and no process is left on the GPUs. Never fails. */
export type CheckLease = (moment: LeaseMoment, of: LeaseCheckOf) => Promise<LeaseCheckResult>;

export interface DriverLook {
  computing(): Promise<readonly GpuProcess[]>;
  leftOnGpus(launch: EndedLaunch): Promise<readonly GpuProcess[]>;
}

export interface LeaseCheckPorts {
  readonly clock: Pick<Clock, "nowMs">;
  readonly closing: AbortSignal;
  readonly hostGpus?: readonly HostGpu[] | undefined;
  /** Absent where no driver is asked. */
  readonly driver?: DriverLook;
  run(program: CheckProgram, signal: AbortSignal): Promise<CheckResult>;
  /** The host is to be set aside for this reason; at a prologue's moment launches fail there. */
  onFailed(reason: string, moment: LeaseMoment): void;
  /** Its prologue has passed, where it has one. */
  onReady(): void;
}

export function leaseChecker(checks: LeaseChecks, ports: LeaseCheckPorts): CheckLease {
  const { driver } = ports;
  let left: readonly GpuProcess[] = [];
  const setAside = (why: string, moment: LeaseMoment): void =>
    ports.onFailed(`${SET_ASIDE}${instantText(ports.clock.nowMs())}: ${why}`, moment);
  /** What earlier launches have left on these GPUs and computes there still. */
  const stillOn = async (gpus: readonly number[]): Promise<readonly GpuProcess[]> => {
    if (driver === undefined || left.length === 0) return [];
    const now = new Set((await driver.computing()).map(keyOf));
    left = left.filter((each) => now.has(keyOf(each)));
    const own = new Set(uuidsOf(gpus, ports.hostGpus));
    return left.filter(({ uuid }) => own.has(uuid));
  };
  return async (moment, { order, gpus, supervisor, signal }) => {
    const over = signal === undefined ? ports.closing : AbortSignal.any([ports.closing, signal]);
    if (over.aborted) return { kind: "called-off" };
    if (moment === "prologue") {
      const others = await stillOn(gpus);
      if (others.length > 0) {
        const why = `${computesText(others)}, left there by an earlier launch`;
        setAside(why, moment);
        return { kind: "failed", why: `${why}. End it, or restart the agent.` };
      }
    } else if (driver !== undefined && supervisor !== undefined) {
      const found = await driver.leftOnGpus({ gpus, supervisor, signal: over });
      if (over.aborted) return { kind: "called-off" };
      left = [...left, ...found];
      if (found.length > 0)
        setAside(`${order.leaseId} has ended, and ${computesText(found)}`, moment);
    }
    const program = checks[moment];
    if (program === undefined) {
      if (moment === "prologue") ports.onReady();
      return { kind: "passed" };
    }
    const env = variablesOf(order, { gpus, hostGpus: ports.hostGpus });
    const result = await ports.run({ ...program, env }, over);
    if (result.kind === "passed") {
      if (moment === "prologue") ports.onReady();
      return result;
    }
    if (over.aborted) return { kind: "called-off" };
    const why = `${program.command[0] ?? ""} ${result.why}`;
    setAside(`the ${moment} of ${order.leaseId} failed: ${why}`, moment);
    return {
      kind: "failed",
      why: `its ${moment} failed: ${why}. Mend the host, or the program that its health file names.`,
    };
  };
}

const keyOf = ({ uuid, pid }: GpuProcess): string => `${uuid} ${pid}`;

const computesText = (found: readonly GpuProcess[]): string =>
  found.map(({ uuid, pid }) => `process ${pid} computes on ${uuid}`).join(", ");

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
