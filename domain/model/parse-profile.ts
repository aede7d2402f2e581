/** @file Reads a measured profile of a model's operators, PipeDream's text or MSR's JSON, whichever it is. */

import type { ParsedGraph } from "./model-graph.ts";
import { parseMsrGraph } from "./parse-msr-graph.ts";
import { parsePipeDream } from "./parse-pipedream.ts";

export const parseProfile = (text: string, file: string): ParsedGraph =>
  text.trimStart().startsWith("{") ? parseMsrGraph(text, file) : parsePipeDream(text, file);

/** By its beginning: a node of PipeDream's, or an object of MSR's with nodes. */
export const isProfile = (text: string): boolean =>
  /^\s*\S+ -- .+ -- .*forward_compute_time=/.test(text) ||
  (text.trimStart().startsWith("{") && /"nodes"\s*:\s*\[\s*\{/.test(text));
