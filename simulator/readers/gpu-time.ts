/**
 * @file Run times for traces that name an application but no duration: by the class of GPU time that the application stands for.
 *
 * The tools that made these workloads drew jobs of a real trace and gave each an application by its GPU time, so the application
 * says between which bounds the GPU time lay (Pollux §5.1, Sia §5.1 and the sampler of the PAI workloads). The k-th job of an application
 * gets the GPU time at the share {k·φ} of its class on a log scale: φ = (√5 − 1)/2 spreads them evenly over the class, without a draw.
 */

interface GpuTimeClass {
  /** GPU-hours. */
  readonly from: number;
  readonly to: number;
}

/** The sampled jobs ran at least a minute (Sia) or 15 s (PAI) on one GPU. */
const LEAST_SIA_HOURS = 1 / 60;
const LEAST_PAI_HOURS = 15 / 3600;

const classes = (
  entries: readonly (readonly [applications: readonly string[], from: number, to: number])[],
): ReadonlyMap<string, GpuTimeClass> =>
  new Map(
    entries.flatMap(([names, from, to]) => names.map((name) => [name, { from, to }] as const)),
  );

export const SIA_CLASSES = classes([
  [["cifar10", "ncf"], LEAST_SIA_HOURS, 1],
  [["deepspeech2", "bert"], 1, 10],
  [["yolov3"], 10, 100],
  [["imagenet", "gpt_pmp"], 100, 1000],
]);

export const PAI_CLASSES = classes([
  [["cifar10", "ncf", "imagenet_resnet50"], LEAST_PAI_HOURS, 0.1],
  [["bert", "llama_8b_wikipedia", "synthetic_mixed_short"], 0.1, 1],
  [["deepspeech2", "synthetic_linear_short", "synthetic_sublinear_short"], 1, 5],
  [["yolov3", "llama_8b_commoncrawl"], 5, 10],
  [["imagenet", "synthetic_mixed_long"], 10, 100],
  [["synthetic_linear_long", "synthetic_sublinear_long"], 100, 1000],
]);

const GOLDEN = (Math.sqrt(5) - 1) / 2;

/** GPU-hours of the job that is number `index` (from 0) of its application. */
export function gpuHours({ from, to }: GpuTimeClass, index: number): number {
  const share = ((index + 0.5) * GOLDEN) % 1;
  return from * (to / from) ** share;
}

/** Counts the jobs of each application as they come. */
export function gpuHoursByApplication(
  byApplication: ReadonlyMap<string, GpuTimeClass>,
): (application: string) => number | undefined {
  const seen = new Map<string, number>();
  return (application) => {
    const known = byApplication.get(application);
    if (known === undefined) return undefined;
    const index = seen.get(application) ?? 0;
    seen.set(application, index + 1);
    return gpuHours(known, index);
  };
}
