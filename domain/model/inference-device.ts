/**
 * @file The speeds of kinds of GPU for the inference planner's cost model, and a table of known kinds.
 *
 * Peaks are the makers' (cores × 2 × clock, memory by the data sheet); the shares are those that large cuBLAS products and
 * streaming kernels reach. V100: 5,120 cores at 1.5 GHz, HBM2 900 GB/s. A6000: 10,752 cores at 1.8 GHz, of which half share their
 * issue slots with integers and the card is held at 300 W, hence the lower share; GDDR6 768 GB/s; `A6000-TF32` with FP32 products on the
 * tensor cores, 77.4 TFLOP/s. A100: FP32 products on the tensor
 * cores (TF32), 156 TFLOP/s; `A100-FP32` without them, 6,912 cores at 1.41 GHz; HBM2 1,555 GB/s. H100 SXM: TF32 494 TFLOP/s, HBM3
 * 3,350 GB/s. V100 and A6000 run FP32 on their plain cores, TVM 0.15's setting of cuBLAS. Products of 16-bit numbers run on the
 * tensor cores of all of them, without sparsity: 125 (V100, FP16 only), 154.8 (A6000), 312 (A100) and 989 TFLOP/s (H100).
 */

export interface InferenceDevice {
  /** The kind's name; measured times of operations are found by it. */
  readonly kind: string;
  readonly peakTflops: number;
  /** Peak of products of 16-bit numbers; absent: that of the others. */
  readonly halfTflops?: number;
  /** Share of the peak that large matrix products reach, in (0, 1]. */
  readonly gemmShare: number;
  /** Device memory, 10^9 bytes a second. */
  readonly memoryGBs: number;
  /** Share of it that streaming kernels reach, in (0, 1]. */
  readonly memoryShare: number;
  /** Time of an empty kernel: launch and drain, microseconds. */
  readonly launchUs: number;
  readonly memoryGiB: number;
}

export const KNOWN_DEVICES: readonly InferenceDevice[] = Object.freeze([
  device("V100", { peakTflops: 15.4, halfTflops: 125, memoryGBs: 900, memoryGiB: 32 }),
  device("A6000", {
    peakTflops: 38.7,
    halfTflops: 154.8,
    gemmShare: 0.65,
    memoryGBs: 768,
    memoryGiB: 48,
  }),
  device("A6000-TF32", {
    peakTflops: 77.4,
    halfTflops: 154.8,
    gemmShare: 0.65,
    memoryGBs: 768,
    memoryGiB: 48,
  }),
  device("A100", {
    peakTflops: 156,
    halfTflops: 312,
    gemmShare: 0.6,
    memoryGBs: 1555,
    memoryGiB: 40,
  }),
  device("A100-FP32", { peakTflops: 19.5, halfTflops: 312, memoryGBs: 1555, memoryGiB: 40 }),
  device("H100", {
    peakTflops: 494,
    halfTflops: 989,
    gemmShare: 0.5,
    memoryGBs: 3350,
    memoryGiB: 80,
  }),
]);

/** The longest known name within a product name: `NVIDIA A100-SXM4-40GB` is an A100. */
export function knownDevice(name: string): InferenceDevice | undefined {
  const plain = name.toUpperCase();
  return [...KNOWN_DEVICES]
    .sort((a, b) => b.kind.length - a.kind.length)
    .find(({ kind }) => plain.includes(kind));
}

type Known = Pick<InferenceDevice, "peakTflops" | "memoryGBs" | "memoryGiB"> &
  Partial<InferenceDevice>;

function device(kind: string, known: Known): InferenceDevice {
  return { kind, gemmShare: 0.9, memoryShare: 0.8, launchUs: 5, ...known };
}
