/**
 * @file Samples how much the machine's GPUs are used, for the agent's heartbeats.
 *
 * A look every ten seconds; a report is the mean of the last half minute, with how long each GPU has been idle. A machine without a driver is asked
 * rarely, and one whose driver does not answer says nothing of its GPUs: the check of GPUs tells of that.
 */

import { parseGpuUse, parseTensorUse, type GpuReading } from "../../domain/fleet/parse-gpu-use.ts";
import { IDLE_BELOW, meanOf, type GpuUse, type PresenceBeat } from "../../domain/lease/gpu-use.ts";
import type { HostId } from "../../domain/values/ids.ts";
import type { Clock } from "../ports/clock.ts";

export interface GpuUsePorts {
  readonly clock: Clock;
  readonly closing: AbortSignal;
  readonly hosts: readonly { readonly id: HostId; readonly gpuCount: number }[];
  /** The ids of a host's GPUs by their places; none where nobody knows them, and the order of the driver's answer counts. */
  uuidsOf?(host: HostId): readonly string[];
  /** The answer to `GPU_USE_WORDS`; undefined where there is no driver. May fail. */
  askDriver(): Promise<string | undefined>;
  /** The answer to `TENSOR_WORDS`; undefined where there is no DCGM. May fail. */
  askTensor(): Promise<string | undefined>;
}

interface Look {
  readonly atMs: number;
  /** In the driver's order. */
  readonly gpus: readonly Sample[];
}

interface Sample extends Partial<GpuReading> {
  readonly tensor?: number;
  /** The GPU's id, else its number in the driver's order. */
  readonly key: string;
}

export const LOOK_EVERY_MS = 10_000;
const WITHOUT_DRIVER_MS = 300_000;
/** Looks that a report is the mean of. */
const MEAN_OF = 3;
/** What is older is not told, and idle time does not reach over a longer gap. */
const STALE_MS = 60_000;

/** The answer is what the next heartbeat tells; undefined while there is nothing. */
export function watchGpuUse(ports: GpuUsePorts): () => PresenceBeat | undefined {
  const { clock, closing, hosts, uuidsOf = () => [] } = ports;
  const usedAtMs = new Map<string, number>();
  let looks: readonly Look[] = [];

  const look = async (): Promise<number> => {
    const [answer, tensor] = await Promise.all([ports.askDriver(), tensorOf(ports)]);
    if (answer === undefined) return WITHOUT_DRIVER_MS;
    const atMs = clock.elapsedMs();
    const readings = parseGpuUse(answer);
    // DCGM counts by numbers of its own once a GPU is gone.
    const isSameCount = tensor.length <= readings.length;
    const gpus = readings.map((reading, at): Sample => {
      const share = isSameCount ? tensor[at] : undefined;
      const key = reading?.uuid ?? String(at);
      return { ...reading, key, ...(share !== undefined && { tensor: share }) };
    });
    // What nobody saw may have been work.
    const isGap = atMs - (looks.at(-1)?.atMs ?? atMs) > STALE_MS;
    for (const { key, use = 1 } of gpus)
      if (isGap || !usedAtMs.has(key) || use >= IDLE_BELOW) usedAtMs.set(key, atMs);
    looks = [...looks, { atMs, gpus }].slice(-MEAN_OF);
    return LOOK_EVERY_MS;
  };

  void (async () => {
    while (!closing.aborted) {
      const pauseMs = await look().catch(() => LOOK_EVERY_MS);
      await clock.pause(pauseMs, closing);
    }
  })();

  return () => {
    const nowMs = clock.elapsedMs();
    const fresh = looks.filter(({ atMs }) => nowMs - atMs < STALE_MS);
    const last = fresh.at(-1);
    if (last === undefined) return undefined;
    const said = new Set(last.gpus.map(({ key }) => key));
    const reportOn = (key: string): GpuUse | null =>
      reportOf(
        said.has(key) ? fresh.flatMap(({ gpus }) => gpus.filter((each) => each.key === key)) : [],
        last.atMs - (usedAtMs.get(key) ?? last.atMs),
      );
    const useOf = ({ id, gpuCount }: (typeof hosts)[number]): readonly (GpuUse | null)[] => {
      const uuids = uuidsOf(id);
      // A driver that says no ids is taken by its order.
      const isById = uuids.some((uuid) => said.has(uuid));
      const keys = isById ? uuids : last.gpus.map(({ key }) => key);
      return keys.slice(0, gpuCount).map(reportOn);
    };
    return { use: Object.fromEntries(hosts.map((host) => [host.id, useOf(host)])) };
  };
}

const tensorOf = async ({ askTensor }: GpuUsePorts): Promise<ReturnType<typeof parseTensorUse>> =>
  parseTensorUse((await askTensor().catch(() => undefined)) ?? "");

function reportOf(samples: readonly Sample[], idleMs: number): GpuUse | null {
  const mean = (of: (sample: Sample) => number | undefined): number | undefined => {
    const values = samples.flatMap((sample) => of(sample) ?? []);
    return values.length === 0 ? undefined : meanOf(values);
  };
  const use = mean((sample) => sample.use);
  if (use === undefined) return null;
  const memoryMiB = mean((sample) => sample.memoryMiB);
  const memoryOfMiB = samples.at(-1)?.memoryOfMiB;
  const watts = mean((sample) => sample.watts);
  const tensor = mean((sample) => sample.tensor);
  return {
    use: rounded(use),
    idleMs,
    ...(memoryMiB !== undefined && { memoryMiB: Math.round(memoryMiB) }),
    ...(memoryOfMiB !== undefined && { memoryOfMiB }),
    ...(watts !== undefined && { watts: Math.round(watts) }),
    ...(tensor !== undefined && { tensor: rounded(tensor) }),
  };
}

const rounded = (share: number): number => Math.round(share * 1_000) / 1_000;
