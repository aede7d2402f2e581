/**
 * @file How fast GPU types multiply matrices: dense 16-bit tensor throughput as their makers' data sheets state it (no sparsity).
 *
 * A peak is never reached; each prediction multiplies it by a share of its own. Types without 16-bit tensor units are listed
 * with the fastest format that training uses there. A type that is not listed has no speed here: callers say what they assume.
 */

/** Teraflops; 32-bit accumulation where the sheet tells them apart. */
const KNOWN: ReadonlyMap<string, number> = new Map([
  ["B200", 2250],
  ["GB200", 2500],
  ["B300", 2250],
  ["H100", 989],
  ["H100-PCIE", 756],
  ["H100-NVL", 835],
  ["H200", 989],
  ["GH200", 989],
  ["H800", 989],
  ["H20", 148],
  ["A100", 312],
  ["A100-40", 312],
  ["A100-80", 312],
  ["A800", 312],
  ["A40", 150],
  ["A30", 165],
  ["A10", 125],
  ["A6000", 155],
  ["A5000", 111],
  ["L4", 121],
  ["L40", 181],
  ["L40S", 362],
  ["RTX6000-ADA", 364],
  ["RTX4090", 165],
  ["V100", 125],
  ["V100-16", 125],
  ["V100-32", 125],
  ["T4", 65],
  ["P100", 21],
  ["K80", 4.1],
  ["RTX3090", 71],
  ["RTX5090", 210],
]);

/** What an unknown type is counted with, by those who must count something: an A100's. */
export const UNKNOWN_TERAFLOPS = 312;

export const gpuTeraflops = (type: string): number | undefined => KNOWN.get(type);

/** NVLink of one GPU in one direction, GB/s, by data sheet; types without it are not listed. */
const NVLINK_GBS: ReadonlyMap<string, number> = new Map([
  ["B200", 900],
  ["GB200", 900],
  ["B300", 900],
  ["H100", 450],
  ["H100-NVL", 300],
  ["H200", 450],
  ["GH200", 450],
  ["H800", 200],
  ["H20", 450],
  ["A100", 300],
  ["A100-40", 300],
  ["A100-80", 300],
  ["A800", 200],
  ["V100", 150],
  ["V100-16", 150],
  ["V100-32", 150],
]);

export const nvlinkGbs = (type: string): number | undefined => NVLINK_GBS.get(type);
