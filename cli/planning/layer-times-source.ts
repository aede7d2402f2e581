/**
 * @file Llama-3.1-8B for the inference planner: by name with the measured layers that come along, or with a table of the user's.
 *
 * `llama-3.1-8b@<batch>x<tokens>`, and `+<past>` behind it for tokens that came before. A table has times of up to some number of
 * tokens (2,048 in those that come along): what is above it, and what runs on other devices, is estimated.
 */

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gunzipSync } from "node:zlib";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { OperatorGraph } from "../../domain/model/operator-graph.ts";
import { parseLayerTimes } from "../../domain/model/parse-layer-times.ts";
import { problemText } from "../../domain/values/problem.ts";
import {
  measuredLlama,
  type LayerTable,
  type MeasuredLlamaShape,
} from "../../planning/inference/measured-llama.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

const PRESET = /^llama-3\.1-8b@(?<batch>\d{1,4})x(?<tokens>\d{1,5})(?:\+(?<past>\d{1,6}))?$/i;
const SUFFIX = "-Llama-3.1-8B-tp1-layers.csv.gz";

/** Undefined when the name is not of this form. */
export function measuredPreset(name: string): OperatorGraph | undefined {
  const groups = PRESET.exec(name)?.groups;
  const [batch, sequence] = [Number(groups?.["batch"]), Number(groups?.["tokens"])];
  if (!(batch > 0 && sequence > 0)) return undefined;
  return measuredLlama({ batch, sequence, past: Number(groups?.["past"] ?? 0) }, tables());
}

export function tableGraph(
  text: string,
  { file, device, shape }: { file: string; device: string; shape: MeasuredLlamaShape },
): OperatorGraph {
  const parsed = parseLayerTimes(text, file);
  if (parsed.kind === "parsed") return measuredLlama(shape, [{ device, layers: parsed.layers }]);
  const lines = parsed.problems.map((problem) => problemText(file, problem));
  throw new OrbweaverError("BAD_INPUT", lines.join("\n"), { details: { problems: lines } });
}

function tables(): readonly LayerTable[] {
  const folder = join(packageRoot(), "data", "layer-times");
  return readdirSync(folder)
    .filter((file) => file.endsWith(SUFFIX))
    .sort()
    .flatMap((file) => {
      const text = gunzipSync(readFileSync(join(folder, file))).toString("utf8");
      const parsed = parseLayerTimes(text, file);
      const device = file.slice(0, -SUFFIX.length);
      return parsed.kind === "parsed" ? [{ device, layers: parsed.layers }] : [];
    });
}
