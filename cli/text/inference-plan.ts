/** @file A model's plan over the GPUs of one host as lines: for `plan --host`, and for `status` of a served job. */

import type { InferenceFacts, PolishFacts, WayFacts } from "../../domain/model/inference-facts.ts";

export function inferencePlanText(plan: InferenceFacts): string {
  const wide = Math.max(9, ...plan.gpus.map(({ name }) => name.length));
  return [
    `${plan.model} on ${plan.host}: ${msText(plan.simulatedMs)} from cold, ${plan.speedUp.toFixed(2)} × one GPU`,
    `  expected      ${msText(plan.expectedMs)}`,
    `  the next one  ${msText(plan.againMs)}, parameters where the first left them`,
    `  one GPU       ${msText(plan.oneGpuMs.series)} (copies, then kernels), ${msText(plan.oneGpuMs.overlapped)} overlapped`,
    `  no plan below ${msText(plan.lowerBoundMs)}, ${gapText(plan)}`,
    ...(plan.polish === undefined ? [] : [polishText(plan, plan.polish)]),
    "",
    `${"GPU".padEnd(wide)}  OPERATIONS  DIRECT       BUSY    MEMORY     STAYS`,
    ...plan.gpus.map(
      ({ name, operations, direct, busyMs, peakGiB, residentGiB }) =>
        `${name.padEnd(wide)}  ${String(operations).padStart(10)}  ${String(direct).padStart(6)}  ${msText(busyMs).padStart(9)}  ${gibText(peakGiB)}  ${gibText(residentGiB)}`,
    ),
    "",
    ...plan.buses.map(
      ({ name, busGBs, gpus, copies, gb }) =>
        `bus ${name} (${busGBs} GB/s, ${gpus.join(", ")}): ${copies} ${copies === 1 ? "parameter" : "parameters"}, ${gb.toFixed(2)} GB`,
    ),
    ...plan.ways.map(wayText),
  ].join("\n");
}

/** Times of plans differ in their last digits from the bound that they reach. */
function gapText({ simulatedMs, lowerBoundMs }: InferenceFacts): string {
  const gap = simulatedMs > 0 ? 1 - lowerBoundMs / simulatedMs : 0;
  return gap < 5e-4 ? "which this reaches" : `a gap of ${(100 * gap).toFixed(1)} %`;
}

function polishText(
  { simulatedMs }: InferenceFacts,
  { limitMs, formerMs, submodels, proven }: PolishFacts,
): string {
  const seconds = (limitMs / 1e3).toFixed(0);
  const gain = 100 * (1 - simulatedMs / formerMs);
  const what = gain < 0.05 ? "nothing better" : `${gain.toFixed(1)} % better`;
  return `  solver        ${what} in ${seconds} s at most; optimum of the MILP proven for ${proven} of ${submodels} submodels`;
}

const msText = (value: number): string => `${value.toFixed(value < 10 ? 3 : 1)} ms`;
const gibText = (value: number): string => `${value.toFixed(1).padStart(4)} GiB`;

const WAYS = { nvlink: "NVLink", nvswitch: "NVSwitch", pcie: "over PCIe" } as const;

const wayText = ({ kind, peerGBs, pairs }: WayFacts): string =>
  `${WAYS[kind]} ${Number(peerGBs.toFixed(1))} GB/s: ${pairs.length === 0 ? "all pairs" : pairs.join(", ")}`;
