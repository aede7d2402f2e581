/**
 * @file Reads tables of measured layers: `layer_name,input,kv_cache,tp_size,latency(ns)`, one row a layer type and number of tokens.
 *
 * The format is LLMServingSim's. Only rows of one GPU (`tp_size` 1) without cached context (`kv_cache` 0) are kept. A row that cannot be
 * read is named, and the text is refused. Cost: one pass.
 */

import { quotedLine, refuse, type Problem, type Refused } from "../values/problem.ts";
import { cleanLines, refuseBySize } from "../values/text-lines.ts";

/** Milliseconds by number of tokens, fewest tokens first. */
export type TimesByTokens = readonly (readonly [tokens: number, ms: number])[];

export type ParsedLayerTimes =
  { readonly kind: "parsed"; readonly layers: ReadonlyMap<string, TimesByTokens> } | Refused;

const HEADER = "layer_name,input,kv_cache,tp_size,latency(ns)";

export const isLayerTimes = (text: string): boolean => text.trimStart().startsWith(HEADER);

export function parseLayerTimes(text: string, file: string): ParsedLayerTimes {
  const bySize = refuseBySize(text, file, { what: "a table of layer times" });
  if (bySize !== undefined) return bySize;
  const problems: Problem[] = [];
  const layers = new Map<string, (readonly [number, number])[]>();
  for (const [at, row] of cleanLines(text).entries()) {
    if (row.trim() === "" || row.trim() === HEADER) continue;
    const [layer = "", ...cells] = row.trim().split(",");
    const [tokens = NaN, context = NaN, width = NaN, nanoseconds = NaN] = cells.map(Number);
    const isTime = nanoseconds > 0 && Number.isFinite(nanoseconds);
    if (layer === "" || cells.length !== 4 || !(tokens >= 1) || !isTime) {
      const message = `${quotedLine(row)} is no measured layer`;
      const remedy = `give rows of ${HEADER}, with tokens from 1 on and a positive time`;
      problems.push({ line: at + 1, message, remedy });
      continue;
    }
    if (context !== 0 || width !== 1) continue;
    const times = layers.get(layer) ?? [];
    times.push([tokens, nanoseconds / 1e6]);
    layers.set(layer, times);
  }
  if (problems.length === 0 && layers.size === 0) {
    const remedy = `give rows of ${HEADER} with kv_cache 0 and tp_size 1`;
    problems.push({ line: 1, message: "no layer was measured", remedy });
  }
  if (problems.length > 0) return refuse(file, problems);
  for (const times of layers.values()) times.sort(([a], [b]) => a - b);
  return { kind: "parsed", layers };
}

/** Linear interpolation between measured numbers of tokens; undefined above the largest. */
export function layerMs(times: TimesByTokens, tokens: number): number | undefined {
  const above = times.findIndex(([measured]) => measured >= tokens);
  const high = times[above];
  if (high === undefined) return undefined;
  const low = times[above - 1];
  if (low === undefined) return high[1];
  return low[1] + ((tokens - low[0]) / (high[0] - low[0])) * (high[1] - low[1]);
}
