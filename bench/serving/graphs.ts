/** @file Models of different forms, for which the planner's expectation is held against lanes. */

import { branchySample, transformerSample } from "../../models/onnx/onnx-samples.ts";

export interface Graph {
  readonly name: string;
  readonly bytes: Uint8Array;
  /** Sizes of open dimensions; others are 1. */
  readonly bindings: ReadonlyMap<string, number>;
}

/** `branchy` is the one that is timed beside one session. */
export const graphs = (branchy: Uint8Array, seed: number): readonly Graph[] => [
  { name: "branchy", bytes: branchy, bindings: new Map() },
  {
    name: "transformer blocks",
    bytes: transformerSample({ blocks: 2, width: 256, heads: 4, seed }),
    bindings: new Map([["sequence", 32]]),
  },
  {
    name: "wide convolutions",
    bytes: branchySample({ side: 48, blocks: 2, depth: 4, width: 24, seed }),
    bindings: new Map(),
  },
  {
    name: "three towers",
    bytes: branchySample({ side: 24, blocks: 3, branches: 3, depth: 20, width: 16, seed }),
    bindings: new Map(),
  },
];
