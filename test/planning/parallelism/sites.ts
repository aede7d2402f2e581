/** @file Sites of GPUs and preset models for tests, with truthful defaults. */

import { modelPreset } from "../../../domain/model/model-presets.ts";
import type { PlanModel } from "../../../planning/parallelism/models.ts";
import { presetModel } from "../../../planning/parallelism/transformer-layers.ts";
import { USUAL_WAYS, type PlanHost, type PlanSite } from "../../../planning/parallelism/site.ts";

export const host = (id: string, gpuCount: number, of: Partial<PlanHost> = {}): PlanHost => ({
  id,
  cluster: "a",
  gpuType: "A100",
  gpuCount,
  memoryGiB: 80,
  teraflops: 312,
  inside: USUAL_WAYS.nvlink,
  nvlinkGpus: gpuCount,
  ...of,
});

export const siteOf = (...hosts: readonly PlanHost[]): PlanSite => ({
  hosts,
  fabric: () => USUAL_WAYS.fabric,
  between: () => USUAL_WAYS.wan,
});

export function preset(name: string): PlanModel {
  const found = modelPreset(name);
  if (found === undefined) throw new Error(`no preset ${name}`);
  return presetModel(...found);
}

/** Every way to cut a row of layers into stages. */
export function allBounds(layers: number, stages: number): readonly (readonly number[])[] {
  const open = (from: number, left: number): readonly (readonly number[])[] =>
    left === 1
      ? [[from, layers]]
      : Array.from({ length: layers - left + 1 - from }, (_, at) => from + at + 1).flatMap((next) =>
          open(next, left - 1).map((rest) => [from, ...rest]),
        );
  return open(0, stages);
}
