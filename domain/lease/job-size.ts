/**
 * @file Size limits of a job: of the part that scheduling reads, and of its whole file. Checked at submit and again at admission.
 *
 * Both are small, because thousands of requests wait in one ledger and every task of a job carries its `run` part. Large data goes into
 * a file that the hosts can read, because there is no store between the submitter's machine and the hosts.
 */

import { MAX_REQUEST_BYTES, scheduledPart } from "./gang-request.ts";
import { valueAt } from "../file/schema-problems.ts";
import type { JobSpec } from "../job/job.ts";
import { harmless, shown } from "../values/file-problem.ts";
import { jsonSizeUpTo, MAX_JSON_DEPTH } from "../../lib/json-size.ts";
import { utf8Length } from "../../lib/utf8.ts";

/** A whole job file as JSON. */
export const MAX_JOB_FILE_BYTES = 64 * 1024;

/** Larger and deeper files are not measured exactly. */
const MEASURED_BYTES = 4 * 1024 * 1024;

export interface TooLarge {
  readonly message: string;
  readonly maxBytes: number;
  /** Absent for a file that is far too large. */
  readonly bytes?: number;
  /** Path of the largest field, e.g. `run.env.SCRIPT`. */
  readonly field?: string;
}

/** Bytes of the part of the job that the fleet reads, as JSON. */
export const requestBytes = (spec: JobSpec): number => jsonBytes(scheduledPart(spec));

/** The part of a job that is too large; undefined when there is none. `file` is the job file's plain value. */
export const tooLarge = (file: unknown, spec: JobSpec): TooLarge | undefined =>
  requestTooLarge(spec) ?? fileTooLarge(file);

/** The request of the job, if it is too large for the fleet. */
export function requestTooLarge(spec: JobSpec): TooLarge | undefined {
  const request = excess(scheduledPart(spec), MAX_REQUEST_BYTES);
  if (request === undefined) return undefined;
  const { what, ...found } = request;
  return {
    ...found,
    message: `the part of job ${spec.name} that scheduling reads is ${String(request.bytes)} bytes; at most ${String(request.maxBytes)} are allowed. Its largest field is ${what}: shorten it.`,
  };
}

/** A file that is too large to be judged: nobody has parsed it, so it may be any value. Cost: linear, and bounded for cyclic ones. */
export function fileTooLarge(file: unknown): TooLarge | undefined {
  const maxBytes = MAX_JOB_FILE_BYTES;
  const about = jsonSizeUpTo(file, MEASURED_BYTES);
  const subject = `the file of job ${shown(valueAt(file, ["name"]))}`;
  if (about === Infinity) {
    const message = `${subject} nests more than ${String(MAX_JSON_DEPTH)} levels deep. Write it flatter.`;
    return { message, maxBytes };
  }
  if (about > MEASURED_BYTES) {
    const message = `${subject} is more than ${String(MEASURED_BYTES)} bytes as JSON; at most ${String(maxBytes)} are allowed. Put large values into a file that the hosts see, and name the file in the job.`;
    return { message, maxBytes };
  }
  const whole = excess(file, maxBytes);
  if (whole === undefined) return undefined;
  const { what, ...found } = whole;
  return {
    ...found,
    message: `${subject} is ${String(whole.bytes)} bytes as JSON; at most ${String(maxBytes)} are allowed. Its largest field is ${what}: put that into a file that the hosts see, and name the file in the job.`,
  };
}

function excess(
  value: unknown,
  maxBytes: number,
): (Required<Omit<TooLarge, "message">> & { readonly what: string }) | undefined {
  const bytes = jsonBytes(value);
  if (bytes <= maxBytes) return undefined;
  const [path, fieldBytes] = largestField(value, "", bytes);
  const field = harmless(path);
  // Of many small fields the largest one says little.
  const others = fieldBytes * 20 < bytes ? ", beside many others" : "";
  return { bytes, maxBytes, field, what: `${field} (${String(fieldBytes)} bytes${others})` };
}

/** Descends into the largest field while it has more than half of its parent's bytes. Ties: the first. */
function largestField(value: unknown, path: string, bytes: number): readonly [string, number] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path, bytes];
  let most: { readonly key: string; readonly field: unknown; readonly bytes: number } | undefined;
  for (const key of Object.keys(value)) {
    const field: unknown = Reflect.get(value, key);
    const size = jsonBytes(field);
    if (most === undefined || size > most.bytes) most = { key, field, bytes: size };
  }
  if (most === undefined) return [path, bytes];
  if (path !== "" && most.bytes * 2 <= bytes) return [path, bytes];
  return largestField(most.field, path === "" ? most.key : `${path}.${most.key}`, most.bytes);
}

/** Length as JSON in UTF-8; 0 for a value without JSON. */
function jsonBytes(value: unknown): number {
  if (Number.isFinite(value)) return String(value).length;
  const text: string | undefined = JSON.stringify(value);
  return text === undefined ? 0 : utf8Length(text);
}
