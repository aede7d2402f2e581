/** @file A profile of a model's operators as job files carry it: gzipped, in base64. */

import { gunzipSync, gzipSync } from "node:zlib";
import { USUAL_PROFILED_ON } from "../../domain/job/job-model.ts";
import { gpuTeraflops } from "../../domain/values/gpu-speed.ts";
import { parseProfile } from "../../domain/model/parse-profile.ts";
import type { Problem } from "../../domain/values/problem.ts";
import { graphModel, type PlanModel } from "../../planning/parallelism/models.ts";

/** Published profiles have a thousand operators; more would hold up the workers that plan them. */
const MOST_OPERATORS = 4_000;
const MOST_BYTES = 4 * 1024 * 1024;

export const packProfile = (text: string): string =>
  gzipSync(text, { level: 9 }).toString("base64");

export type ReadProfile =
  | { readonly kind: "read"; readonly model: PlanModel }
  | { readonly kind: "refused"; readonly problems: readonly Problem[] };

/** `name`: the model's in the job file. Whatever was packed, by whomever. */
export function readPackedProfile(
  packed: string,
  { name, profiledOn = USUAL_PROFILED_ON }: { readonly name: string; readonly profiledOn?: string },
): ReadProfile {
  let text: string;
  try {
    text = gunzipSync(Buffer.from(packed, "base64"), { maxOutputLength: MOST_BYTES }).toString();
  } catch {
    return refused(
      `it is not gzipped, or has more than ${String(MOST_BYTES)} bytes`,
      "name the profile's file as model, and orbweaver submit packs it",
    );
  }
  const parsed = parseProfile(text, name);
  if (parsed.kind === "refused") return parsed;
  if (parsed.graph.nodes.length > MOST_OPERATORS)
    return refused(
      `${String(parsed.graph.nodes.length)} operators are too many; at most ${String(MOST_OPERATORS)} are planned for a running job`,
      "profile layers, or plan by orbweaver plan --graph",
    );
  const teraflops = gpuTeraflops(profiledOn);
  if (teraflops === undefined)
    return refused(`the speed of ${profiledOn} is not known`, "name another type as profiledOn");
  return { kind: "read", model: graphModel(parsed.graph, teraflops) };
}

const refused = (message: string, remedy: string): ReadProfile => ({
  kind: "refused",
  problems: [{ line: 1, message, remedy }],
});
