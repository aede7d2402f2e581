/** @file The surrogate behind the port of learners: its model as files of a version, and back. */

import { inferenceGraph, trainingGraph } from "./surrogate-graphs.ts";
import { FEATURE_COUNT } from "./features.ts";
import type { Learner } from "./learner.ts";
import type { ModelFiles } from "./registry.ts";
import { openSyncPredictor, trainSurrogate, type SurrogateModel } from "./surrogate.ts";
import { transformerShape } from "./transformer.ts";

const PARAMETERS = "parameters.f32";
/** Everything of a model but its parameters. */
const SETTINGS = "settings.json";

export const surrogateLearner: Learner = {
  name: "surrogate-2",
  async learn({ domain, samples, seed, from }) {
    const model = await trainSurrogate({
      domain,
      samples,
      seed,
      ...(from !== undefined && { from: modelOf(from) }),
    });
    const { metrics } = model;
    return {
      files: filesOf(model),
      metrics: Object.fromEntries(
        Object.entries(metrics).filter(
          (entry): entry is [string, number] =>
            typeof entry[1] === "number" && Number.isFinite(entry[1]),
        ),
      ),
    };
  },
  open: (files, { domain, version }) => openSyncPredictor(modelOf(files), domain, { version }),
};

/** Little-endian, as ONNX has them. */
function filesOf({ parameters, settings }: SurrogateModel): ModelFiles {
  const bytes = new Uint8Array(4 * parameters.length);
  const view = new DataView(bytes.buffer);
  parameters.forEach((value, at) => view.setFloat32(4 * at, value, true));
  const shape = transformerShape(FEATURE_COUNT);
  return new Map([
    [PARAMETERS, bytes],
    [SETTINGS, new TextEncoder().encode(JSON.stringify(settings))],
    ["infer.onnx", inferenceGraph(shape)],
    ["train.onnx", trainingGraph(shape)],
  ]);
}

function modelOf(files: ModelFiles): SurrogateModel {
  const bytes = files.get(PARAMETERS);
  const settings = files.get(SETTINGS);
  if (bytes === undefined || settings === undefined)
    throw new RangeError(`a version of the surrogate has ${PARAMETERS} and ${SETTINGS}`);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return {
    parameters: Float32Array.from({ length: Math.floor(bytes.length / 4) }, (_, at) =>
      view.getFloat32(4 * at, true),
    ),
    // Its hash was checked when it was read: it is what `filesOf` wrote.
    settings: JSON.parse(new TextDecoder().decode(settings)) as SurrogateModel["settings"],
  };
}
