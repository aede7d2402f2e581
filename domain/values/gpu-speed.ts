/**
 * @file How fast GPU types multiply matrices, read their memory and reach each other: dense 16-bit tensor throughput and bandwidths as their makers'
 * data sheets state them (no sparsity).
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

/** Device memory, GB/s by data sheet; of `H100-NVL` one of its two cards, of `K80` one of its two chips. */
const MEMORY_GBS: ReadonlyMap<string, number> = new Map([
  ["B200", 8000],
  ["GB200", 8000],
  ["B300", 8000],
  ["H100", 3350],
  ["H100-PCIE", 2000],
  ["H100-NVL", 3900],
  ["H200", 4800],
  ["GH200", 4000],
  ["H800", 3350],
  ["H20", 4000],
  ["A100", 2039],
  ["A100-40", 1555],
  ["A100-80", 2039],
  ["A800", 2039],
  ["A40", 696],
  ["A30", 933],
  ["A10", 600],
  ["A6000", 768],
  ["A5000", 768],
  ["L4", 300],
  ["L40", 864],
  ["L40S", 864],
  ["RTX6000-ADA", 960],
  ["RTX4090", 1008],
  ["V100", 900],
  ["V100-16", 900],
  ["V100-32", 900],
  ["T4", 320],
  ["P100", 732],
  ["K80", 240],
  ["RTX3090", 936],
  ["RTX5090", 1792],
]);

export const gpuMemoryGbs = (type: string): number | undefined => MEMORY_GBS.get(type);

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
