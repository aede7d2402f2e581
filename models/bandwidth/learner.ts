/**
 * @file The port of learners: each makes the files of a version from samples of a cluster's bandwidth, and opens them.
 *
 * The product uses the surrogate as its learner. Its files: the parameters, its settings, and the two ONNX graphs (inference and one step
 * of training) with which any ONNX runtime can use it and go on with it.
 */

import type {
  BandwidthDomain,
  BandwidthPredictor,
  BandwidthSample,
} from "../../domain/bandwidth/bandwidth-port.ts";
import type { ModelFiles } from "./registry.ts";

interface LearnRequest {
  readonly domain: BandwidthDomain;
  readonly samples: readonly (BandwidthSample & { readonly weight: number })[];
  readonly seed: number;
  /** The files of the version to go on from. */
  readonly from?: ModelFiles;
}

export interface Learned {
  readonly files: ModelFiles;
  readonly metrics: Readonly<Record<string, number>>;
}

export interface Learner {
  readonly name: string;
  learn(request: LearnRequest): Promise<Learned>;
  /** Throws when the files are not its own, or do not fit the domain. */
  open(
    files: ModelFiles,
    at: { readonly domain: BandwidthDomain; readonly version: string },
  ): BandwidthPredictor;
}
