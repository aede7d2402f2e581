/**
 * @file Which of the files that `tools/bundle-programs.mjs` makes is started by `main.ts`: each loads in a fraction of the time of its hundreds of modules.
 *
 * `light.cjs` has the verbs that talk to the Temporal server, and read job files, and nothing else, and the console, which runs for ever and holds what it loads. `serve.cjs` has the one that serves a model, because each
 * replica of a service starts with it while requests wait. `whole.cjs` has all verbs, workers and agents among them, but the benches, which are loaded
 * module by module.
 */

/** The files of the verbs, by the words that name them, aliases included. */
export const LIGHT_VERBS: ReadonlyMap<string, string> = new Map([
  ["submit", "jobs/submit"],
  ["list", "jobs/list"],
  ["ls", "jobs/list"],
  ["status", "jobs/status"],
  ["explain", "jobs/explain"],
  ["queue", "jobs/queue"],
  ["logs", "jobs/logs"],
  ["cancel", "jobs/cancel"],
  ["kill", "jobs/kill"],
  ["retry", "jobs/retry"],
  ["suspend", "jobs/suspend"],
  ["resume", "jobs/resume"],
  ["requeue", "jobs/requeue"],
  ["move", "jobs/move"],
  ["update", "jobs/update"],
  ["top", "jobs/top"],
  ["hold", "jobs/hold"],
  ["release", "jobs/release"],
  ["drain", "fleet/drain"],
  ["undrain", "fleet/undrain"],
  ["fence", "fleet/fence"],
  ["console", "service/console"],
]);

/** A decision is replayed with Temporal's worker; a what-if decides, with models; ended jobs come from a database with code of its platform; a codec is a module of the user's, which imports what it likes. */
const HEAVY_FLAGS: readonly string[] = ["--decision", "--codec", "--ended", "--what-if"];

/** The file of `serve`, whose other verbs talk to a fleet (`replicas`) or only write a file. */
export const SERVING_VERB = "science/serve";

export type Bundle = "light.cjs" | "serve.cjs" | "whole.cjs";

/** The smallest file that holds all that a run needs; undefined where none does. `env`: names the codec, too. */
export function bundleOf(
  [verb = "", ...rest]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Bundle | undefined {
  if (verb === "bench") return undefined;
  if (verb === "serve") return rest.includes("replicas") ? "whole.cjs" : "serve.cjs";
  const isLight =
    LIGHT_VERBS.has(verb) &&
    (env["ORBWEAVER_CODEC"] ?? "") === "" &&
    !rest.some((word) => HEAVY_FLAGS.some((flag) => word === flag || word.startsWith(`${flag}=`)));
  return isLight ? "light.cjs" : "whole.cjs";
}
