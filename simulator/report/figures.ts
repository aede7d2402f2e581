/**
 * @file The plots of a report: what each shows, of one simulation or of several side by side.
 *
 * Of one simulation a plot has a line for each class, of several a line for each policy (waits: a plot for each class; shares: a plot
 * for each policy, since held and due belong together). Samples are means or states at equal distances of time, so what is between two of
 * them is not seen. Waits below one millisecond stand at one millisecond: a logarithmic axis has no zero.
 */

import { JOB_CLASSES, type JobClass } from "../../domain/job/job.ts";
import type { Sample, SimulationResult } from "../result.ts";
import { grouped, shareText, timeSpanText, unitFor, WAIT_TICKS } from "./amounts.ts";
import type { Axis, ChartParts, Series } from "./chart.ts";

export interface Figure {
  readonly heading: string;
  /** What to read from it, one sentence. */
  readonly note: string;
  readonly chart: ChartParts;
}

export function figuresOf(results: readonly SimulationResult[]): readonly Figure[] {
  return [
    utilisationFigure(results),
    ...waitFigures(results),
    queueFigure(results),
    preemptionFigure(results),
    ...results.map((result) => shareFigure(result, results.length > 1)),
    fragmentationFigure(results),
  ];
}

const utilisationFigure = (results: readonly SimulationResult[]): Figure =>
  overTime(results, {
    heading: "Utilisation",
    note: "Kept progress as a share of all GPU time in service, between two samples; work that is lost later is taken off where it is lost. Shaded: the steady window.",
    label: "share of GPU time",
    isShare: true,
    lines: ofEach(results, "all classes", ({ utilisation }) => Math.max(0, utilisation)),
  });

function waitFigures(results: readonly SimulationResult[]): readonly Figure[] {
  const note =
    "Share of requests that were granted within a time, on a logarithmic scale: further left and higher is better.";
  const [only] = results;
  if (only !== undefined && results.length === 1) {
    const series = JOB_CLASSES.flatMap((name, colour) => cdfSeries(only, name, { name, colour }));
    return [{ heading: "Waits by class", note, chart: cdfChart("Waits by class", series) }];
  }
  return JOB_CLASSES.flatMap((name) => {
    const series = results.flatMap((result, colour) =>
      cdfSeries(result, name, { name: result.policy, colour }),
    );
    const heading = `Waits, ${name}`;
    return series.length === 0 ? [] : [{ heading, note, chart: cdfChart(heading, series) }];
  });
}

/** None for a class without a single request. */
function cdfSeries(
  { classes }: SimulationResult,
  jobClass: JobClass,
  line: { readonly name: string; readonly colour: number },
): readonly Series[] {
  const wait = classes.find(({ name }) => name === jobClass)?.wait;
  if (wait === undefined || wait.count === 0) return [];
  const points = wait.cdf.map(([ms, share]) => [Math.max(1, ms), share] as const);
  const [first] = points;
  // The line begins at the axis and ends at the right edge, at all of them.
  const ends: readonly (readonly [number, number])[] = [[Number.MAX_SAFE_INTEGER, 1]];
  const start = first === undefined ? [] : [[1, first[0] <= 1 ? first[1] : 0] as const];
  return [{ ...line, points: [...start, ...points, ...ends] }];
}

function cdfChart(title: string, series: readonly Series[]): ChartParts {
  const longest = Math.max(
    1_000,
    ...series.flatMap(({ points }) => points.slice(0, -1).map(([ms]) => ms)),
  );
  const to = WAIT_TICKS.find(([ms]) => ms >= longest)?.[0] ?? longest;
  const textByTick = new Map(WAIT_TICKS);
  return {
    title,
    x: {
      label: "wait",
      from: 1,
      to,
      isLog: true,
      ticks: WAIT_TICKS.map(([ms]) => ms).filter((ms) => ms <= to),
      text: (ms) => textByTick.get(ms) ?? timeSpanText(ms),
    },
    y: shareAxis("share of requests"),
    series,
  };
}

const queueFigure = (results: readonly SimulationResult[]): Figure =>
  overTime(results, {
    heading: "Queue length",
    note: "Jobs that wait, preempted ones included.",
    label: "jobs",
    lines: byClassOrPolicy(results, ({ waitingJobs }, name) => waitingJobs[name]),
  });

function preemptionFigure(results: readonly SimulationResult[]): Figure {
  const lines = results.map((result, colour): Series => {
    let sum = 0;
    const points = result.samples.map(({ atMs, preemptions }) => {
      sum += preemptions;
      return [atMs, sum] as const;
    });
    return { name: results.length === 1 ? "preemptions" : result.policy, colour, points };
  });
  return overTime(results, {
    heading: "Preemptions",
    note: "Gangs that gave up GPUs for others, whole or in part, since the start.",
    label: "preemptions so far",
    lines,
  });
}

function shareFigure(result: SimulationResult, isOneOfSeveral: boolean): Figure {
  const lines = JOB_CLASSES.flatMap((name, colour): readonly Series[] => {
    const held = pointsOf(result, ({ gpusHeld }) => gpusHeld[name]);
    const due = pointsOf(result, ({ dueGpus }) => dueGpus[name]);
    const isEmpty = [...held, ...due].every(([, gpus]) => gpus === 0);
    return isEmpty
      ? []
      : [
          { name: `${name}, held`, colour, points: held },
          { name: `${name}, due`, colour, points: due, isDashed: true },
        ];
  });
  return overTime([result], {
    heading: `Share against due share${isOneOfSeveral ? `, ${result.policy}` : ""}`,
    note: "GPUs that each class holds (solid) and that are due to it by its weight and demand at that moment (dashed).",
    label: "GPUs",
    lines,
  });
}

const fragmentationFigure = (results: readonly SimulationResult[]): Figure =>
  overTime(results, {
    heading: "Fragmentation",
    note: "Free GPUs on hosts that are partly taken: they serve no gang that wants whole hosts.",
    label: "GPUs",
    lines: ofEach(
      results,
      "free GPUs on partly taken hosts",
      ({ freeGpus, fragmentation }) => freeGpus * fragmentation,
    ),
  });

interface OverTime {
  readonly heading: string;
  readonly note: string;
  readonly label: string;
  readonly isShare?: boolean;
  readonly lines: readonly Series[];
}

/** Plots over time show this much more than the time up to the end of the steady window: then the fleet only runs empty. */
const SHOWN_AFTER_WINDOW = 0.25;

/** Where the axes of time end. */
export const shownUntilMs = (results: readonly SimulationResult[]): number =>
  Math.max(
    1,
    ...results.map(({ endedAtMs, window }) =>
      Math.min(endedAtMs, window.toMs * (1 + SHOWN_AFTER_WINDOW)),
    ),
  );

/** Times of the points are milliseconds; the axis gets the unit that fits. */
function overTime(
  results: readonly SimulationResult[],
  { heading, note, label, isShare = false, lines }: OverTime,
): Figure {
  const toMs = shownUntilMs(results);
  const unit = unitFor(toMs);
  const series = lines.map(({ points, ...line }) => ({
    ...line,
    points: points
      .filter(([ms]) => ms <= toMs)
      .map(([ms, value]) => [ms / unit.ms, value] as const),
  }));
  const highest = Math.max(1, ...series.flatMap(({ points }) => points.map(([, value]) => value)));
  const window = results[0]?.window;
  return {
    heading,
    note,
    chart: {
      title: heading,
      x: { label: `time, ${unit.name}`, from: 0, to: toMs / unit.ms, text: String },
      y: isShare ? shareAxis(label) : countAxis(label, highest * 1.05),
      series,
      ...(window !== undefined && {
        band: {
          from: window.fromMs / unit.ms,
          to: window.toMs / unit.ms,
          name: "steady window",
        },
      }),
    },
  };
}

const countAxis = (label: string, to: number): Axis => ({
  label,
  from: 0,
  to,
  isCount: true,
  text: grouped,
});

const shareAxis = (label: string): Axis => ({
  label,
  from: 0,
  to: 1,
  ticks: [0, 0.2, 0.4, 0.6, 0.8, 1],
  text: (share) => shareText(share).replace(".0", ""),
});

const pointsOf = (
  { samples }: SimulationResult,
  value: (sample: Sample) => number,
): Series["points"] => samples.map((sample) => [sample.atMs, value(sample)]);

/** One line for each simulation. */
const ofEach = (
  results: readonly SimulationResult[],
  nameOfOne: string,
  value: (sample: Sample) => number,
): readonly Series[] =>
  results.map((result, colour) => ({
    name: results.length === 1 ? nameOfOne : result.policy,
    colour,
    points: pointsOf(result, value),
  }));

/** Of one simulation a line for each class that has anything, of several the sum over classes. */
function byClassOrPolicy(
  results: readonly SimulationResult[],
  value: (sample: Sample, name: JobClass) => number,
): readonly Series[] {
  const [only] = results;
  if (only === undefined || results.length > 1) {
    return ofEach(results, "", (sample) =>
      JOB_CLASSES.reduce((sum, name) => sum + value(sample, name), 0),
    );
  }
  return JOB_CLASSES.map((name, colour) => ({
    name,
    colour,
    points: pointsOf(only, (sample) => value(sample, name)),
  }));
}
