/**
 * @file Training steps a second of Gavel's job types on V100 GPUs, by GPU count; a trace has steps for run times, and these turn them into time.
 *
 * Source: stanford-futuredata/gavel, scheduler/simulation_throughputs.json, type v100, consolidated, running alone (MIT, see data/README.md);
 * four significant digits. A count that was not measured is taken from the next smaller measured one, in proportion to the GPUs.
 */

/** On 1, 2, 4 and 8 GPUs; some types were measured on one alone. */
const COUNTS = [1, 2, 4, 8] as const;

type Row = readonly [jobType: string, ...stepsPerSecond: number[]];
const MEASURED: readonly Row[] = [
  ["ResNet-18 (batch size 16)", 32.35, 100.1, 123.9, 382.6],
  ["ResNet-18 (batch size 32)", 29.95, 94.25, 114.7, 340],
  ["ResNet-18 (batch size 64)", 24.09, 74.14, 95.59, 255.8],
  ["ResNet-18 (batch size 128)", 17.99, 23.99, 69.95, 162.1],
  ["ResNet-18 (batch size 256)", 10.3, 15.88, 27.78, 81.51],
  ["ResNet-50 (batch size 16)", 11.4, 13.86, 23.2, 27.8],
  ["ResNet-50 (batch size 32)", 7.787, 10.83, 13.76, 24.07],
  ["ResNet-50 (batch size 64)", 4.395, 7.922, 9.452, 17.3],
  ["ResNet-50 (batch size 128)", 2.497, 4.223, 7.029, 10.29],
  ["Transformer (batch size 16)", 11.06, 14.15, 20.08, 71.65],
  ["Transformer (batch size 32)", 10.62, 13.33, 22.82, 63.98],
  ["Transformer (batch size 64)", 8.618, 15.88, 19.66, 49.65],
  ["Transformer (batch size 128)", 5.446, 10.07, 14.17, 30.88],
  ["Transformer (batch size 256)", 1.595, 2.885, 4.763, 9.717],
  ["A3C", 7.176],
  ["LM (batch size 5)", 109.2, 185.7, 126.7, 698.8],
  ["LM (batch size 10)", 81.65, 163.1, 121.5, 615.1],
  ["LM (batch size 20)", 64.74, 132.2, 111, 497.3],
  ["LM (batch size 40)", 45.24, 91.59, 96.03, 359.3],
  ["LM (batch size 80)", 28.24, 58.09, 74.81, 231.2],
  ["Recommendation (batch size 512)", 23.32],
  ["Recommendation (batch size 1024)", 13.28],
  ["Recommendation (batch size 2048)", 7.47],
  ["Recommendation (batch size 4096)", 3.906],
  ["Recommendation (batch size 8192)", 2.842],
  ["CycleGAN", 4.426],
];
const RATES: ReadonlyMap<string, readonly number[]> = new Map(
  MEASURED.map(([jobType, ...rates]) => [jobType, rates]),
);

export const JOB_TYPES: readonly string[] = [...RATES.keys()];

export interface Throughput {
  readonly stepsPerSecond: number;
  /** At this very count. */
  readonly isMeasured: boolean;
}

/** `undefined` for a job type that Gavel does not know. */
export function throughputOf(jobType: string, gpus: number): Throughput | undefined {
  const rates = RATES.get(jobType) ?? [];
  for (let at = rates.length - 1; at >= 0; at -= 1) {
    const [rate, count] = [rates[at], COUNTS[at]];
    if (rate === undefined || count === undefined || count > gpus) continue;
    return { stepsPerSecond: (rate * gpus) / count, isMeasured: count === gpus };
  }
  return undefined;
}
