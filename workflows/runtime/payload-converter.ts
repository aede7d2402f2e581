/**
 * @file How workflows read payloads: as Temporal does, but what cannot be read is a value that says so, not an error.
 *
 * A payload that a workflow cannot read (another codec, torn JSON) would fail its task for ever, and one signal would be enough
 * to stop a fleet. This way it arrives as junk, which every handler knows how to refuse. Bundled with the workflows.
 */

import { defaultPayloadConverter, type Payload, type PayloadConverter } from "@temporalio/common";

/** Stands for a payload that could not be read. */
export interface Unreadable {
  readonly kind: "unreadable";
  readonly encoding: string;
}

export const payloadConverter: PayloadConverter = {
  toPayload: (value) => defaultPayloadConverter.toPayload(value),
  // The interface promises the caller's type, as the converter behind it does.
  fromPayload: <Value>(payload: Payload) => {
    try {
      return defaultPayloadConverter.fromPayload<Value>(payload);
    } catch {
      return { kind: "unreadable", encoding: encodingOf(payload) } satisfies Unreadable as Value;
    }
  },
};

function encodingOf({ metadata }: Payload): string {
  const bytes = metadata?.["encoding"];
  return bytes === undefined || bytes === null ? "none" : new TextDecoder().decode(bytes);
}
