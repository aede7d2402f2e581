/**
 * @file Looks at the GPUs of an agent's machine again and again: drains what is broken, moves the launches on it, and says of a launch that has failed whether a
 * broken GPU lies under it.
 */

import {
  createGpuCheck,
  GPU_CHECK_EVERY_MS,
  type GpuCheck,
  type GpuVerdict,
} from "../agent/health/gpu-check.ts";
import { GPU_FAULT, keepChecking, type HealthCheckPorts } from "../agent/health/health-checks.ts";
import { launchFault, type FindLaunchFault } from "../agent/health/launch-fault.ts";
import { moveLaunches } from "../agent/health/move-launches.ts";
import type { HostGpu } from "../agent/containment/host-gpus.ts";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import { askDriver, driverView, type DriverView } from "../agent/system/gpu-driver.ts";
import { KERNEL_LOG, openKernelLog } from "../agent/system/kernel-log.ts";
import { nodeClock } from "../agent/system/node-clock.ts";
import { openXidLog } from "../agent/system/xid-log.ts";
import { packageRoot } from "./server/package-root.ts";

export const ownDriver = (): DriverView => driverView(process.env, packageRoot());

export const textOf = async (
  view: DriverView,
  words: readonly string[],
): Promise<string | undefined> => (await askDriver(view, words))?.text;

export interface GpuRounds {
  readonly check: GpuCheck;
  /** Looks at them now, and tells the fleet. */
  readonly again: () => Promise<unknown>;
}

export async function checkGpus(
  served: readonly AgentHost[],
  told: Omit<HealthCheckPorts, "runCheck"> & {
    readonly drainGpus: (out: ReadonlyMap<number, string>, reason: string) => Promise<void>;
    readonly onRounds: (rounds: GpuRounds) => void;
  },
): Promise<void> {
  const { clock, closing, onNote } = told;
  const view = ownDriver();
  const log =
    openKernelLog(KERNEL_LOG) ??
    openXidLog(view, { clock, onNote: (note) => onNote(`${KERNEL_LOG} is not read; ${note}`) });
  closing.addEventListener("abort", () => log.close(), { once: true });
  const check = createGpuCheck({
    ...{ clock, onNote, places: placesOf(served) },
    query: () => textOf(view, ["-q", "-x"]),
    links: () => textOf(view, ["nvlink", "--status"]),
    linkErrors: () => textOf(view, ["nvlink", "--errorcounters"]),
    readLog: () => log.read(),
  });
  let broken: readonly number[] | "all" = [];
  let out: ReadonlyMap<number, string> | "all" = "all";
  await keepChecking(
    { prefix: GPU_FAULT, everyMs: GPU_CHECK_EVERY_MS },
    {
      ...told,
      onRound: (again) => told.onRounds({ check, again }),
      runCheck: async () => {
        const verdict = await check.look();
        if (verdict.kind === "passed") return verdict;
        ({ gpus: broken, out } = verdict);
        return { ...verdict, scope: scopeOf(verdict) };
      },
      drain: async (reason) => {
        await (out === "all" ? told.drain(reason) : told.drainGpus(out, reason));
        void moveLaunches(served, { gpus: broken, reason, onNote });
      },
    },
  );
}

/** Whole GPUs, also of instances of MIG. */
const placesOf = (served: readonly AgentHost[]): ReadonlyMap<string, number> =>
  new Map(
    served.flatMap(({ gpus = [] }) =>
      gpus.flatMap(({ busId, index, gpu = index }) =>
        busId === undefined ? [] : [[busId, gpu] as const],
      ),
    ),
  );

/** What is out of service, and what jobs leave. */
const scopeOf = ({ out, gpus }: Extract<GpuVerdict, { readonly kind: "failed" }>): string =>
  `${out === "all" ? out : [...out.keys()].join()} ${String(gpus)}`;

/** `rounds`: undefined while nobody looks. The fleet may take long to hear of the fault, and the report of the launch does not wait for more than `mostMs`. */
export const faultFinder =
  (
    rounds: () => GpuRounds | undefined,
    {
      hostGpus,
      mostMs,
      closing,
    }: {
      readonly hostGpus: readonly HostGpu[];
      readonly mostMs: number;
      readonly closing: AbortSignal;
    },
  ): FindLaunchFault =>
  async (own, startedAtMs) => {
    const looking = rounds();
    if (looking === undefined) return undefined;
    const { faultsSince } = looking.check;
    const found = launchFault({ hostGpus, own }, startedAtMs, { clock: nodeClock, faultsSince });
    if (found !== undefined)
      await Promise.race([looking.again(), nodeClock.pause(mostMs, closing)]);
    return found;
  };
