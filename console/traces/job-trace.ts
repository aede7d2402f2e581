/**
 * @file The trace of a job that has ended, from its page: one span for the job, one for each phase of its life, and an event for each moment. Pure.
 *
 * In OTLP's JSON (opentelemetry-proto, `ExportTraceServiceRequest`). The ids are drawn from the job's, so a trace that is sent twice is the same trace, and
 * who knows a job's id can name its trace: the first 32 digits of the SHA-256 of the id, as `sha256sum` prints it.
 */

import { createHash } from "node:crypto";
import { phasesOf } from "../../page/job-phases.ts";
import type { AttemptRow, JobPage } from "../../page/job-wire.ts";
import { gpuCount } from "../../page/text.ts";

/** An attribute's value; absent: the attribute is left out. */
type Value = string | number | undefined;

interface Attribute {
  readonly key: string;
  readonly value:
    | { readonly stringValue: string }
    | { readonly intValue: string }
    | { readonly doubleValue: number };
}

const INTERNAL = 1;
const OK = 1;
const FAILED = 2;

/** `service`: its name among others. Undefined while the job lives, or where nothing of its beginning is known. */
export function jobTrace(
  page: JobPage,
  { fleet, service }: { readonly fleet: string; readonly service: string },
): string | undefined {
  const { job, run = "", about, user, ended, moments, attempts } = page;
  const [first] = moments;
  if (ended === undefined || first === undefined) return undefined;
  const traceId = digits(job, 32);
  const rootId = digits(`${job} ${run}`, 16);
  const root = {
    ...{ traceId, spanId: rootId, name: "job", kind: INTERNAL },
    ...times(first.atMs, Math.max(first.atMs, ended.atMs)),
    attributes: attributes({
      "orbweaver.fleet": fleet,
      "orbweaver.job": job,
      "orbweaver.job.name": about?.name,
      "orbweaver.job.class": about?.class,
      "orbweaver.job.tenant": about?.tenant,
      "orbweaver.job.user": user,
      "orbweaver.job.gpus": about?.gpus,
      "orbweaver.job.tasks": about?.tasks,
      "orbweaver.job.outcome": ended.how,
    }),
    events: moments.map(({ atMs, kind, text }) => ({
      timeUnixNano: nanos(atMs),
      name: kind,
      attributes: attributes({ "orbweaver.text": text }),
    })),
    status:
      ended.how === "completed" ? { code: OK } : { code: FAILED, message: ended.why || ended.how },
  };
  const phases = phasesOf(page, ended.atMs).map(({ phase, fromMs, toMs }, at) => ({
    ...{ traceId, spanId: digits(`${job} ${run} ${at}`, 16), parentSpanId: rootId },
    ...{ name: phase, kind: INTERNAL, ...times(fromMs, toMs) },
    attributes: attributes(
      phase === "preparing" || phase === "running" ? leaseAttributes(attempts, fromMs) : {},
    ),
  }));
  return JSON.stringify({
    resourceSpans: [
      {
        resource: { attributes: attributes({ "service.name": service }) },
        scopeSpans: [{ scope: { name: "orbweaver" }, spans: [root, ...phases] }],
      },
    ],
  });
}

/** Of the newest lease that was granted by then. */
function leaseAttributes(
  attempts: readonly AttemptRow[],
  atMs: number,
): Readonly<Record<string, Value>> {
  const lease = attempts.filter(({ grantedAtMs }) => grantedAtMs <= atMs).at(-1);
  if (lease === undefined) return {};
  return {
    "orbweaver.lease": lease.lease,
    "orbweaver.lease.gpus": gpuCount(lease.gpus),
    "orbweaver.lease.hosts": lease.gpus.map(([host]) => host).join(" "),
    "orbweaver.lease.reason": lease.reason,
    "orbweaver.lease.end": lease.end,
    "orbweaver.lease.lost_gpu_seconds": lease.lostGpuSeconds,
  };
}

const digits = (of: string, count: number): string =>
  createHash("sha256").update(of).digest("hex").slice(0, count);

/** Whole microseconds: a number has no room for more. */
const nanos = (ms: number): string => `${Math.round(ms * 1_000)}000`;

const times = (fromMs: number, toMs: number) => ({
  startTimeUnixNano: nanos(fromMs),
  endTimeUnixNano: nanos(toMs),
});

const attributes = (values: Readonly<Record<string, Value>>): readonly Attribute[] =>
  Object.entries(values).flatMap(([key, value]) =>
    value === undefined || value === "" ? [] : [{ key, value: typed(value) }],
  );

function typed(value: string | number): Attribute["value"] {
  if (typeof value === "string") return { stringValue: value };
  return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
}
