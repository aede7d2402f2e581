/**
 * @file How large a job may be: what scheduling reads of it, and its whole file. Asked at submit and again when the job is admitted.
 *
 * Thousands of requests wait in one ledger, and every task of a job carries what its run part says: so both are small, and what is
 * large goes by a file that the hosts see. There is no store between the submitter's machine and the hosts.
 */

import { MAX_REQUEST_BYTES, scheduledPart } from "./gang-request.ts";
import type { JobSpec } from "./job.ts";

/** A whole job file as JSON. */
export const MAX_JOB_FILE_BYTES = 64 * 1024;

export interface TooLarge {
  readonly message: string;
  readonly bytes: number;
  readonly maxBytes: number;
  /** Path of the field that has most of it, e.g. `run.env.SCRIPT`. */
  readonly field: string;
}

/** Bytes of what the fleet reads of the job, as JSON. */
export const requestBytes = (spec: JobSpec): number => jsonBytes(scheduledPart(spec));

/** What is too large about a job; undefined when nothing is. `file` is the job file's plain value. */
export function tooLarge(file: unknown, spec: JobSpec): TooLarge | undefined {
  const request = excess(scheduledPart(spec), MAX_REQUEST_BYTES);
  if (request !== undefined) {
    return {
      ...request,
      message: `the part of job ${spec.name} that scheduling reads is ${String(request.bytes)} bytes; at most ${String(request.maxBytes)} are allowed. Its largest field is ${request.what}: shorten it.`,
    };
  }
  const whole = excess(file, MAX_JOB_FILE_BYTES);
  if (whole === undefined) return undefined;
  return {
    ...whole,
    message: `the file of job ${spec.name} is ${String(whole.bytes)} bytes as JSON; at most ${String(whole.maxBytes)} are allowed. Its largest field is ${whole.what}: put that into a file that the hosts see, and name the file in the job.`,
  };
}

function excess(
  value: unknown,
  maxBytes: number,
): (Omit<TooLarge, "message"> & { readonly what: string }) | undefined {
  const bytes = jsonBytes(value);
  if (bytes <= maxBytes) return undefined;
  const [field, fieldBytes] = largestField(value, "", bytes);
  return { bytes, maxBytes, field, what: `${field} (${String(fieldBytes)} bytes)` };
}

/** Goes down into the largest field as long as that has more than half of what is around it. Ties: the first. */
function largestField(value: unknown, path: string, bytes: number): readonly [string, number] {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return [path, bytes];
  const sizes = Object.entries(value).map(([key, field]) => ({
    path: path === "" ? key : `${path}.${key}`,
    field: field as unknown, // Object.entries says any
    bytes: jsonBytes(field),
  }));
  const [first] = sizes;
  if (first === undefined) return [path, bytes];
  const most = sizes.reduce((best, one) => (one.bytes > best.bytes ? one : best), first);
  if (path !== "" && most.bytes * 2 <= bytes) return [path, bytes];
  return largestField(most.field, most.path, most.bytes);
}

/** Length as JSON in UTF-8; of what has no JSON, 0. */
function jsonBytes(value: unknown): number {
  const text: string | undefined = JSON.stringify(value);
  return text === undefined ? 0 : utf8Bytes(text);
}

/** A lone half of a surrogate pair counts as the replacement character. */
function utf8Bytes(text: string): number {
  let bytes = 0;
  for (const char of text) {
    const code = char.codePointAt(0) ?? 0;
    bytes += code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  }
  return bytes;
}
