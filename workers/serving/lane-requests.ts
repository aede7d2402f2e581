/**
 * @file The open requests of one lane, with the values that have arrived for each and the part that each waits for.
 *
 * This is the ready queue of SortingHat's algorithm 1. Requests are looked at in their order of arrival, so the earliest request whose
 * next part has all its inputs runs first. Cost: one pass over the open requests a call.
 */

import type { TensorValue } from "../../models/onnx/onnx-session.ts";
import type { LaneMessage, LanePart } from "./lane-messages.ts";

export interface LaneRequest {
  readonly request: number;
  hasBegun: boolean;
  isDropped: boolean;
  /** Index of the part that runs next. */
  next: number;
  readonly values: Map<string, TensorValue>;
  /** For each value, the parts of this lane that have still to read it. */
  readonly readsLeft: Map<string, number>;
}

export interface LaneRequests {
  readonly receive: (message: Exclude<LaneMessage, { readonly kind: "end" }>) => void;
  /** The earliest request whose next part has all its inputs. */
  readonly runnable: () => LaneRequest | undefined;
  /** The earliest request that has begun and has parts left. */
  readonly earliest: () => LaneRequest | undefined;
  /** Forgets the values that no later part of the lane reads. */
  readonly releaseInputs: (state: LaneRequest, part: LanePart) => void;
  /** Forgets a request that is over or lost. */
  readonly finish: (state: LaneRequest) => void;
}

/** After this many later requests no message arrives any more for a request that was dropped. */
const REMEMBERED_REQUESTS = 1_000;

export function createLaneRequests(parts: readonly LanePart[]): LaneRequests {
  const requests = new Map<number, LaneRequest>();
  const reads = readCounts(parts);

  const stateOf = (request: number): LaneRequest => {
    const known = requests.get(request);
    if (known !== undefined) return known;
    const state: LaneRequest = {
      request,
      hasBegun: false,
      isDropped: false,
      next: 0,
      values: new Map(),
      readsLeft: new Map(reads),
    };
    requests.set(request, state);
    return state;
  };

  const firstOpen = (fits: (state: LaneRequest, part: LanePart) => boolean) => {
    for (const state of requests.values()) {
      const part = parts[state.next];
      if (!state.hasBegun || state.isDropped || part === undefined) continue;
      if (fits(state, part)) return state;
    }
    return undefined;
  };

  return {
    receive(message) {
      const state = stateOf(message.request);
      switch (message.kind) {
        case "begin":
          if (parts.length === 0) requests.delete(message.request);
          requests.forEach(({ isDropped }, old) => {
            if (isDropped && old < message.request - REMEMBERED_REQUESTS) requests.delete(old);
          });
          state.hasBegun = true;
          for (const [name, tensor] of message.values) state.values.set(name, tensor);
          break;
        case "value":
          state.values.set(message.value[0], message.value[1]);
          break;
        case "drop":
          state.isDropped = true;
          state.values.clear();
          break;
      }
    },
    runnable: () => firstOpen(({ values }, { inputs }) => inputs.every((name) => values.has(name))),
    earliest: () => firstOpen(() => true),
    releaseInputs({ readsLeft, values }, { inputs }) {
      for (const name of inputs) {
        const left = (readsLeft.get(name) ?? 1) - 1;
        readsLeft.set(name, left);
        if (left === 0) values.delete(name);
      }
    },
    finish(state) {
      state.values.clear();
      // A dropped request stays known, so that a late value for it starts nothing.
      if (!state.isDropped) requests.delete(state.request);
    },
  };
}

/** How many parts of the lane read each value. */
function readCounts(parts: readonly LanePart[]): ReadonlyMap<string, number> {
  const counts = new Map<string, number>();
  for (const { inputs } of parts) {
    for (const name of inputs) counts.set(name, (counts.get(name) ?? 0) + 1);
  }
  return counts;
}
