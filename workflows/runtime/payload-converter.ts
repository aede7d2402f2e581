/**
 * @file How workflows read payloads: as Temporal does, but what cannot be read is a value that says so, not an error.
 *
 * A payload that a workflow cannot read (another codec, torn JSON) would fail its task for ever, and one signal would be enough
 * to stop a fleet. This way it arrives as junk, which every handler knows how to refuse. So does one that nests without an end: it could be read, but whoever
 * writes it again, as an argument of an activity or as the input of the next run, overflows the stack. Bundled with the workflows.
 */

import { defaultPayloadConverter, type Payload, type PayloadConverter } from "@temporalio/common";
import { isTextDeeperThan } from "../../lib/json-depth.ts";

/** Far more than anything that is meant, and a quarter of what a thread's stack has room for. */
export const MOST_LEVELS = 1_000;

export const JSON_ENCODING = "json/plain";

/** Stands for a payload that could not be read. */
export interface Unreadable {
  readonly kind: "unreadable";
  readonly encoding: string;
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  // The interface promises the caller's type, as the converter behind it does.
  fromPayload: <Value>(payload: Payload) => {
    if (isTooDeep(payload)) return unreadable(payload);
    try {
      return defaultPayloadConverter.fromPayload<Value>(payload);
    } catch {
      return unreadable(payload);
    }
  },
};

/** Of what is no JSON the bytes mean something else. */
const isTooDeep = (payload: Payload): boolean =>
  isTextDeeperThan(payload.data ?? new Uint8Array(), MOST_LEVELS) &&
  encodingOf(payload) === JSON_ENCODING;

const unreadable = <Value>(payload: Payload): Value =>
  ({ kind: "unreadable", encoding: encodingOf(payload) }) satisfies Unreadable as Value;

function encodingOf({ metadata }: Payload): string {
  const bytes = metadata?.["encoding"];
  return bytes === undefined || bytes === null ? "none" : new TextDecoder().decode(bytes);
}
