/**
 * @file Looks at the GPUs of an agent's machine again and again: drains what is broken, moves the launches on it, and says of a launch that has failed whether a
 * broken GPU lies under it.
 */

import {
  createGpuCheck,
  GPU_CHECK_EVERY_MS,
  type GpuCheck,
  type GpuVerdict,
  type PlacedGpu,
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
import type { HostId } from "../domain/values/ids.ts";
import type { ServedHost } from "./host-resources.ts";
import { placeAnew } from "./placed-hosts.ts";
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
    /** How a host's GPUs are found in an answer of the driver. */
    readonly setupOf: (host: HostId) => Pick<ServedHost, "gpusIn">;
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
    ...{ clock, onNote, gpus: () => placedIn(served) },
    query: async () => {
      const answer = await textOf(view, ["-q", "-x"]);
      for (const host of answer === undefined ? [] : served)
        await placeAnew(host, told.setupOf(host.id), { answer: answer ?? "", onNote });
      return answer;
    },
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

/** Whole GPUs, also of instances of MIG. None where no host knows its GPUs. */
export function placedIn(
  served: readonly Pick<AgentHost, "gpus" | "gpuCount">[],
): readonly PlacedGpu[] {
  return served.flatMap(({ gpus = [], gpuCount }) => {
    const known = gpus.map(({ index, gpu, uuid, busId, isGone }): PlacedGpu => ({
      place: gpu ?? index,
      ...(busId !== undefined && { busId }),
      ...(gpu === undefined && { uuid }),
      ...(isGone === true && { goneText: `GPU ${uuid} is gone` }),
    }));
    // Of instances of MIG such a place has no number that the driver's answers could name.
    const isWhole = gpus.length > 0 && gpus.every(({ gpu }) => gpu === undefined);
    const never = isWhole ? Math.max(0, gpuCount - gpus.length) : 0;
    const text = `the machine shows ${gpus.length} of ${gpuCount} GPUs`;
    return [
      ...known,
      ...Array.from({ length: never }, (_, at) => ({ place: gpus.length + at, goneText: text })),
    ];
  });
}

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
      readonly hostGpus: () => readonly HostGpu[];
      readonly mostMs: number;
      readonly closing: AbortSignal;
    },
  ): FindLaunchFault =>
  async (own, startedAtMs) => {
    const looking = rounds();
    if (looking === undefined) return undefined;
    const { faultsSince } = looking.check;
    const found = launchFault({ hostGpus: hostGpus(), own }, startedAtMs, {
      ...{ clock: nodeClock, faultsSince },
    });
    if (found !== undefined)
      await Promise.race([looking.again(), nodeClock.pause(mostMs, closing)]);
    return found;
  };
