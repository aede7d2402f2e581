/**
 * @file What a service counts: its requests by how they ended, those within both times, and the times themselves; for Prometheus, and in the form of the
 * statistics extension of the Open Inference Protocol.
 */

import type { ReplicaCounts } from "./replica-keeper.ts";

export interface RequestTimes {
  readonly waitMs: number;
  readonly wholeMs: number;
  /** Of an answer of events: to its first piece, and the mean between its pieces. */
  readonly ttftMs?: number;
  readonly tpotMs?: number;
}

export type RequestEnd = "answered" | "refused" | "failed" | "lost" | "gone";

export interface ServiceGoalTimes {
  readonly ttftMs: number;
  readonly tpotMs: number;
}

export interface ServiceCounts {
  readonly end: (how: RequestEnd, times?: RequestTimes) => void;
  readonly again: () => void;
  readonly metricsText: (now: ServiceNow) => string;
  readonly statistics: (name: string) => unknown;
}

export interface ServiceNow {
  readonly inService: number;
  readonly waiting: number;
  readonly replicas: ReplicaCounts;
  readonly bodiesBytes: number;
}

const ENDS: readonly RequestEnd[] = ["answered", "refused", "failed", "lost", "gone"];
const BOUNDS_S = [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100];

/** `goal`: of a service of language models. */
export function countService(goal?: ServiceGoalTimes): ServiceCounts {
  const ends = new Map<RequestEnd, number>(ENDS.map((each) => [each, 0]));
  const histograms = {
    wait: histogram("wait_seconds", "time in line"),
    request: histogram("request_seconds", "time to the end of an answer"),
    ttft: histogram("ttft_seconds", "time to the first piece of an answer of events"),
    tpot: histogram("tpot_seconds", "mean time between the pieces of an answer of events"),
  };
  let [inTime, streamed, again, lastMs] = [0, 0, 0, 0];
  return {
    again: () => (again += 1),
    end(how, times) {
      ends.set(how, (ends.get(how) ?? 0) + 1);
      if (times === undefined) return;
      lastMs = Date.now();
      histograms.wait.see(times.waitMs / 1000);
      histograms.request.see(times.wholeMs / 1000);
      if (times.ttftMs === undefined) return;
      streamed += 1;
      histograms.ttft.see(times.ttftMs / 1000);
      if (times.tpotMs !== undefined) histograms.tpot.see(times.tpotMs / 1000);
      const isInTime =
        goal !== undefined && times.ttftMs <= goal.ttftMs && (times.tpotMs ?? 0) <= goal.tpotMs;
      if (isInTime) inTime += 1;
    },
    metricsText: ({ inService, waiting, replicas, bodiesBytes }) =>
      [
        "# TYPE orbweaver_service_requests_total counter",
        ...ENDS.map(
          (end) => `orbweaver_service_requests_total{end="${end}"} ${ends.get(end) ?? 0}`,
        ),
        ...counter("asked_again_total", again),
        ...(goal === undefined
          ? []
          : [...counter("streamed_total", streamed), ...counter("in_time_total", inTime)]),
        ...gauge("in_service", inService),
        ...gauge("waiting", waiting),
        ...gauge("body_bytes", bodiesBytes),
        "# TYPE orbweaver_service_replicas gauge",
        ...Object.entries(replicas).map(
          ([phase, count]) => `orbweaver_service_replicas{phase="${phase}"} ${String(count)}`,
        ),
        ...Object.values(histograms).flatMap(({ lines }) => lines()),
        "",
      ].join("\n"),
    statistics: (name) => ({
      model_stats: [
        {
          name,
          version: "1",
          last_inference: lastMs,
          inference_count: ends.get("answered") ?? 0,
          execution_count: ends.get("answered") ?? 0,
          inference_stats: {
            success: duration(histograms.request, ends.get("answered") ?? 0),
            fail: { count: (ends.get("failed") ?? 0) + (ends.get("lost") ?? 0), ns: 0 },
            queue: duration(histograms.wait, histograms.wait.count()),
          },
        },
      ],
    }),
  };
}

const duration = ({ sum }: Histogram, count: number) => ({ count, ns: Math.round(sum() * 1e9) });

const counter = (name: string, value: number): readonly string[] => [
  `# TYPE orbweaver_service_${name} counter`,
  `orbweaver_service_${name} ${value}`,
];
const gauge = (name: string, value: number): readonly string[] => [
  `# TYPE orbweaver_service_${name} gauge`,
  `orbweaver_service_${name} ${value}`,
];

interface Histogram {
  readonly see: (seconds: number) => void;
  readonly count: () => number;
  readonly sum: () => number;
  readonly lines: () => readonly string[];
}

function histogram(name: string, help: string): Histogram {
  const full = `orbweaver_service_${name}`;
  const within = BOUNDS_S.map(() => 0);
  let [count, sum] = [0, 0];
  return {
    see(seconds) {
      count += 1;
      sum += seconds;
      for (const [at, bound] of BOUNDS_S.entries())
        if (seconds <= bound) within[at] = (within[at] ?? 0) + 1;
    },
    count: () => count,
    sum: () => sum,
    lines: () => [
      `# HELP ${full} ${help}`,
      `# TYPE ${full} histogram`,
      ...BOUNDS_S.map((bound, at) => `${full}_bucket{le="${bound}"} ${within[at] ?? 0}`),
      `${full}_bucket{le="+Inf"} ${count}`,
      `${full}_sum ${sum}`,
      `${full}_count ${count}`,
    ],
  };
}
