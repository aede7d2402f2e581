/**
 * @file GPU types that need no explanation in a fleet file: memory and board power as their makers' data sheets state them.
 *
 * Memory is what the card is sold with, in GiB: data sheets write GB and mean it so (an "80GB" H100 shows 81,559 MiB).
 * Watts are the maximum board power, which is what a busy GPU is counted with.
 */

import { nearestName } from "./nearest-name.ts";
import { gib, watts, type GiB, type Watts } from "./units.ts";

export interface GpuTypeFacts {
  readonly memoryGiB: GiB;
  readonly watts: Watts;
}

const facts = (memoryGiB: number, boardWatts: number): GpuTypeFacts => ({
  memoryGiB: gib(memoryGiB),
  watts: watts(boardWatts),
});

/** Source: NVIDIA's data sheet of each product; SXM where a type has several forms. */
const KNOWN: ReadonlyMap<string, GpuTypeFacts> = new Map([
  // Blackwell: HGX B200 (1000 W), GB200 NVL72 (1200 W a GPU), B300 (HGX B300).
  ["B200", facts(180, 1000)],
  ["GB200", facts(186, 1200)],
  ["B300", facts(288, 1400)],
  // Hopper: H100 SXM5, H100 PCIe, H200 SXM, GH200 (96 GB, module power is shared with the CPU), H800 and H20 SXM.
  ["H100", facts(80, 700)],
  ["H100-PCIE", facts(80, 350)],
  ["H100-NVL", facts(94, 400)],
  ["H200", facts(141, 700)],
  ["GH200", facts(96, 1000)],
  ["H800", facts(80, 700)],
  ["H20", facts(96, 400)],
  // Ampere: A100 SXM4 40 and 80 GB, A800 SXM4 80 GB, A30, A40, A10, RTX A5000 and A6000.
  ["A100", facts(80, 400)],
  ["A100-40", facts(40, 400)],
  ["A100-80", facts(80, 400)],
  ["A800", facts(80, 400)],
  ["A40", facts(48, 300)],
  ["A30", facts(24, 165)],
  ["A10", facts(24, 150)],
  ["A6000", facts(48, 300)],
  ["A5000", facts(24, 230)],
  // Ada Lovelace: L4, L40, L40S, RTX 6000 Ada, GeForce RTX 4090.
  ["L4", facts(24, 72)],
  ["L40", facts(48, 300)],
  ["L40S", facts(48, 350)],
  ["RTX6000-ADA", facts(48, 300)],
  ["RTX4090", facts(24, 450)],
  // Volta, Turing, Pascal, Kepler: V100 SXM2 16 and 32 GB, T4, P100 SXM2, K80 (one of its two chips).
  ["V100", facts(16, 300)],
  ["V100-16", facts(16, 300)],
  ["V100-32", facts(32, 300)],
  ["T4", facts(16, 70)],
  ["P100", facts(16, 300)],
  ["K80", facts(12, 150)],
  // GeForce: RTX 3090 and RTX 5090.
  ["RTX3090", facts(24, 350)],
  ["RTX5090", facts(32, 575)],
]);

export const GPU_TYPES: readonly string[] = [...KNOWN.keys()];

const NAME_BY_LOWER: ReadonlyMap<string, string> = new Map(
  GPU_TYPES.map((name) => [name.toLowerCase(), name]),
);

/** Of an instance of MIG, `H100:1g.10gb`: the memory that its profile names, and its part of the draw: a GPU has seven slices. */
export function knownGpuType(name: string): GpuTypeFacts | undefined {
  const [whole = "", profile] = name.split(":");
  const all = KNOWN.get(whole);
  if (profile === undefined || all === undefined) return all;
  const [, slices, memory] = MIG_FORM.exec(profile) ?? [];
  if (slices === undefined || memory === undefined) return undefined;
  return facts(Number(memory), Math.ceil((all.watts * Number(slices)) / MIG_SLICES));
}

/** The profile of a MIG instance as the driver writes it: `1g.10gb`, `1c.3g.40gb`, `1g.10gb+me`. */
export const MIG_PROFILE = "(?:[1-7]c\\.)?[1-7]g\\.[0-9]{1,3}gb(?:[+-][a-z.]{1,10})?";
const MIG_FORM = /^(?:[1-7]c\.)?([1-7])g\.([0-9]{1,3})gb/;
const MIG_SLICES = 7;

/** The GPUs of such a type are instances of MIG. */
export const isMigType = (name: string): boolean => name.includes(":");

/** A well-known type in whatever case is that type: `h100` is `H100`; others are left as they are. */
export function gpuTypeName(text: string): string {
  const [whole = "", profile] = text.split(":");
  const name = NAME_BY_LOWER.get(whole.toLowerCase()) ?? whole;
  return profile === undefined ? name : `${name}:${profile.toLowerCase()}`;
}

export const nearestGpuType = (name: string, own: readonly string[]): string | undefined =>
  nearestName(name, [...own, ...GPU_TYPES]);
