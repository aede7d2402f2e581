/** @file What agents tell of the GPUs of a lease, in a sentence. Pure. */

import { counted, durationText } from "./text.ts";
import { UNTOLD, type GpuMask, type UseRow } from "./wire.ts";

/** Undefined where no agent tells of them. `isIdle`: none has been used for some minutes. */
export function useText(
  gpus: readonly GpuMask[],
  use: ReadonlyMap<string, UseRow>,
): { readonly text: string; readonly isIdle: boolean } | undefined {
  const of = (name: "use" | "memory" | "watts" | "idleMinutes" | "tensor"): readonly number[] =>
    gpus.flatMap(([host, mask]) =>
      (use.get(host)?.[name] ?? []).filter(
        (value, gpu) => ((mask >>> gpu) & 1) === 1 && value !== UNTOLD,
      ),
    );
  const used = of("use");
  if (used.length === 0) return undefined;
  const [memory, watts, tensor] = [of("memory"), of("watts"), of("tensor")];
  const minutes = Math.min(...of("idleMinutes"));
  const isIdle = minutes >= IDLE_MINUTES;
  const parts = [
    `${counted(used.length, "GPU")} in use ${mean(used)} % of the time`,
    ...(tensor.length === 0 ? [] : [`tensor cores ${mean(tensor)} %`]),
    ...(memory.length === 0 ? [] : [`memory ${mean(memory)} %`]),
    ...(watts.length === 0 ? [] : [`${sum(watts).toLocaleString("en")} W`]),
    ...(isIdle ? [`all idle for ${durationText(minutes * 60_000)}`] : []),
  ];
  return { text: parts.join(" · "), isIdle };
}

const IDLE_MINUTES = 5;

const sum = (values: readonly number[]): number => values.reduce((all, one) => all + one, 0);
const mean = (values: readonly number[]): number => Math.round(sum(values) / values.length);
