/**
 * @file What merciless worlds have besides: GPUs that break while the rest of their host goes on, and people who drain single GPUs.
 *
 * Each concern draws from a stream of its own.
 */

import type { Random } from "../lib/random.ts";
import { CALM_AT_MS, type Fault, type Order, type Settings } from "./settings.ts";

export function madeMerciless(settings: Settings, random: Random): Settings {
  const faults = drawGpus(random.stream("gpus"));
  const orders = drawDrains(random.stream("drains"));
  return {
    ...settings,
    faults: [...settings.faults, ...faults].sort((a, b) => a.atMs - b.atMs),
    orders: [...settings.orders, ...orders].sort((a, b) => a.atMs - b.atMs),
  };
}

const drawGpus = ({ below }: Random): readonly Fault[] =>
  Array.from({ length: 1 + below(5) }, (): Fault => {
    const atMs = 10_000 + below(CALM_AT_MS - 50_000);
    return { kind: "gpu", atMs, target: below(1_000), forMs: 10_000 + below(120_000) };
  });

const drawDrains = ({ below }: Random): readonly Order[] =>
  Array.from({ length: below(4) }, (): Order => {
    const atMs = 5_000 + below(CALM_AT_MS - 20_000);
    return { kind: "drain-gpus", atMs, target: below(1_000), forMs: 5_000 + below(60_000) };
  });
