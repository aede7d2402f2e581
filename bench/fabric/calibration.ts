/**
 * @file The truth beside public logs: bus bandwidth of all-reduces as published, and as a sound cluster of the fabric has it, with the error.
 *
 * A sound cluster has the middle of each range and no faults. The logs name neither switches nor paths, so the hosts are taken to be
 * neighbours. Of the pairwise cluster, which has no all-reduces, the share of slow pairs counts: those with less than 0.6 of the median.
 */

import type { Drawn, FabricSpec } from "./fabric-file.ts";
import { buildCluster } from "./fabric.ts";
import { fabricTruth } from "./truth.ts";

interface PublicFigure {
  readonly fabric: string;
  readonly source: string;
  readonly hosts: number;
  readonly messageMiB: number;
  /** GB/s of bus bandwidth, out of place. */
  readonly gbs: number;
}

export const PUBLIC_FIGURES: readonly PublicFigure[] = Object.freeze([
  figure("rail-infiniband", "nccl-tests of Nebius, H100 (dstack)", [2, 1_024, 446.2]),
  figure("rail-infiniband", "nccl-tests of Nebius, H100 (dstack)", [2, 8_192, 467.5]),
  figure("rail-infiniband", "nccl-tests of CoreWeave, H100, SHARP", [8, 1_024, 365.9]),
  figure("rail-infiniband", "nccl-tests of CoreWeave, H100, SHARP", [8, 8_192, 386.6]),
  figure("nvl72-infiniband", "nccl-tests of CoreWeave, GB200", [18, 8_192, 834.6]),
  figure("nvl72-infiniband", "nccl-tests of CoreWeave, GB200", [36, 8_192, 793.1]),
  figure("nvl72-infiniband", "nccl-tests of CoreWeave, GB200", [36, 16_384, 810.4]),
  figure("nvl72-infiniband", "nccl-tests of CoreWeave, GB200", [360, 8_192, 381.5]),
  figure("nvl72-infiniband", "nccl-tests of CoreWeave, GB200", [360, 16_384, 405.7]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [2, 16, 29.24]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [2, 128, 35.52]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [2, 512, 36.49]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [8, 16, 10.89]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [8, 128, 35.7]),
  figure("two-cards", "Polaris of ALCF, NCCL 2.18, env5", [8, 512, 36.41]),
]);

/** Of pairs of hosts: 131 pairs of 17 H100 hosts, sendrecv, with so many GPUs on each. */
const SLOW_PAIRS = Object.freeze([
  { fabric: "leaf-spine", gpus: 1, slowShare: 8 / 131 },
  { fabric: "leaf-spine", gpus: 4, slowShare: 27 / 131 },
]);
const PAIR_HOSTS = 17;
const PAIR_SEEDS = 20;
const SLOW = 0.6;

function figure(
  fabric: string,
  source: string,
  [hosts, messageMiB, gbs]: readonly [number, number, number],
): PublicFigure {
  return { fabric, source, hosts, messageMiB, gbs };
}

export interface Calibrated {
  readonly what: string;
  readonly measured: number;
  readonly truth: number;
  readonly unit: "GB/s" | "% of pairs";
}

/** What there is of one fabric; nothing of one that no log is about. */
export function calibration(spec: FabricSpec): readonly Calibrated[] {
  const figures = PUBLIC_FIGURES.filter(({ fabric }) => fabric === spec.name).map(
    ({ source, hosts, messageMiB, gbs }): Calibrated => ({
      what: `${source}: ${String(hosts * spec.host.gpus)} GPUs, ${String(messageMiB)} MiB`,
      measured: gbs,
      truth: compactGbs(soundSpec(spec, messageMiB), hosts),
      unit: "GB/s",
    }),
  );
  const pairs = SLOW_PAIRS.filter(({ fabric }) => fabric === spec.name).map(
    ({ gpus, slowShare }): Calibrated => ({
      what: `slow pairs of the pairwise cluster, ${String(gpus)} GPUs a host`,
      measured: 100 * slowShare,
      truth: 100 * slowPairs(spec, gpus),
      unit: "% of pairs",
    }),
  );
  return [...figures, ...pairs];
}

function compactGbs(spec: FabricSpec, hosts: number): number {
  const cluster = buildCluster(spec, { gpus: hosts * spec.host.gpus, seed: 1 });
  const mask = 2 ** spec.host.gpus - 1;
  return fabricTruth(cluster).gbs(Array.from({ length: hosts }, (_, host) => ({ host, mask })));
}

/** The same fabric with the middle of each range, nothing broken, and messages of this size. */
function soundSpec(spec: FabricSpec, messageMiB: number): FabricSpec {
  const { host, nvlink, leaf, collective } = spec;
  return {
    ...spec,
    host: { ...host, cardGbs: middle(host.cardGbs), insideGbs: middle(host.insideGbs) },
    ...(nvlink !== undefined && { nvlink: { ...nvlink, gbs: middle(nvlink.gbs) } }),
    leaf: { ...leaf, uplinkGbs: middle(leaf.uplinkGbs) },
    collective: {
      ...collective,
      messageMiB,
      treeShare: middle(collective.treeShare),
      insideUs: middle(collective.insideUs),
      betweenUs: middle(collective.betweenUs),
    },
    slowCards: { ...spec.slowCards, share: 0 },
    uplinkFaults: { ...spec.uplinkFaults, down: 0, slow: 0 },
  };
}

const middle = (value: Drawn): number =>
  typeof value === "number" ? value : (value[0] + value[1]) / 2;

function slowPairs(spec: FabricSpec, gpus: number): number {
  const mask = 2 ** gpus - 1;
  let slow = 0;
  let all = 0;
  for (let seed = 1; seed <= PAIR_SEEDS; seed += 1) {
    const truth = fabricTruth(buildCluster(spec, { gpus: PAIR_HOSTS * spec.host.gpus, seed }));
    const found: number[] = [];
    for (let a = 0; a < PAIR_HOSTS; a += 1)
      for (let b = a + 1; b < PAIR_HOSTS; b += 1)
        found.push(
          truth.gbs([
            { host: a, mask },
            { host: b, mask },
          ]),
        );
    found.sort((a, b) => a - b);
    const median = found[Math.floor(found.length / 2)] ?? 0;
    slow += found.filter((gbs) => gbs < SLOW * median).length;
    all += found.length;
  }
  return slow / all;
}
