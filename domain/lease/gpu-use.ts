/** @file How much GPUs are used, as agents tell it with their heartbeats: the message, and how it is read from outside. */

import { isFields } from "../../lib/fields.ts";
import type { LeftInService } from "../fleet/left-in-service.ts";
import type { HostId } from "../values/ids.ts";
import type { KeptWeights } from "./kept-weights.ts";
import type { RefusedOrder } from "./refused-order.ts";
import { toldByHost } from "./told-by-host.ts";

/** Of one GPU over the last half minute. Shares are from 0 to 1. */
export interface GpuUse {
  readonly use: number;
  /** For how long, until the report, it has been used by less than `IDLE_BELOW`. */
  readonly idleMs: number;
  readonly memoryMiB?: number;
  readonly memoryOfMiB?: number;
  readonly watts?: number;
  /** Part of the time in which its tensor cores worked. */
  readonly tensor?: number;
}

/** By the number of the GPU; null where the machine says nothing of it. */
export type HostUse = readonly (GpuUse | null)[];

/** What a heartbeat of an agent tells beside that the agent is there. */
export interface PresenceBeat {
  readonly use: Readonly<Record<HostId, HostUse>>;
  /** Of hosts that keep any. */
  readonly weights?: Readonly<Record<HostId, KeptWeights>>;
  /** Of hosts that have refused orders. */
  readonly refused?: Readonly<Record<HostId, readonly RefusedOrder[]>>;
  /** Of hosts that would have been set aside within the last hour. */
  readonly left?: LeftInService;
}

/** A GPU below this is idle. */
export const IDLE_BELOW = 0.05;
const MOST_GPUS = 32;
const AMOUNTS = ["memoryMiB", "memoryOfMiB", "watts", "tensor"] as const;

export const readPresenceBeat = (details: unknown): ReadonlyMap<HostId, HostUse> =>
  toldByHost(details, "use", (gpus) =>
    Array.isArray(gpus) && gpus.length <= MOST_GPUS ? gpus.map(readGpu) : undefined,
  );

function readGpu(said: unknown): GpuUse | null {
  if (!isFields(said)) return null;
  const { use, idleMs } = said;
  if (!isAmount(use) || use > 1 || !isAmount(idleMs)) return null;
  const more = AMOUNTS.flatMap((name) => {
    const value = said[name];
    return isAmount(value) ? [[name, value] as const] : [];
  });
  return { use, idleMs, ...Object.fromEntries(more) };
}

const isAmount = (value: unknown): value is number =>
  typeof value === "number" && Number.isFinite(value) && value >= 0;

/** What the host says of the GPUs of this mask; those of which it says nothing are absent. */
export const usesIn = (
  use: HostUse | undefined,
  mask: number,
): readonly (GpuUse & { readonly gpu: number })[] =>
  (use ?? []).flatMap((one, gpu) =>
    one === null || (mask & (1 << gpu)) === 0 ? [] : [{ gpu, ...one }],
  );

/** Of several GPUs together. */
export interface UseSum extends GpuUse {
  readonly gpus: number;
}

/**
 * Shares are means over the GPUs that say them, amounts are sums, and the time is that for which none was used. Of no GPU: a use of 0 and an idle
 * time of 0.
 */
export function sumOfUse(gpus: readonly GpuUse[]): UseSum {
  const sum = (name: (typeof AMOUNTS)[number]): number | undefined => {
    const values = gpus.flatMap((one) => one[name] ?? []);
    return values.length === 0 ? undefined : values.reduce((all, value) => all + value, 0);
  };
  const [memoryMiB, memoryOfMiB, watts] = [sum("memoryMiB"), sum("memoryOfMiB"), sum("watts")];
  const tensors = gpus.flatMap(({ tensor }) => tensor ?? []);
  return {
    gpus: gpus.length,
    use: meanOf(gpus.map(({ use }) => use)),
    idleMs: gpus.length === 0 ? 0 : Math.min(...gpus.map(({ idleMs }) => idleMs)),
    ...(memoryMiB !== undefined && { memoryMiB }),
    ...(memoryOfMiB !== undefined && { memoryOfMiB }),
    ...(watts !== undefined && { watts }),
    ...(tensors.length > 0 && { tensor: meanOf(tensors) }),
  };
}

/** 0 of nothing. */
export const meanOf = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((all, value) => all + value, 0) / values.length;

/** `42 %`. */
export const percentText = (share: number): string => `${Math.round(share * 100)} %`;
