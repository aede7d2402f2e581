/**
 * @file Verbs that `tools/build.mjs` puts into one file, which loads in a third of the time of its hundreds of modules; `main.ts` starts it.
 *
 * `light.cjs` has those that talk to the Temporal server, and read job files, and nothing else. `serve.cjs` has the one that serves a model, because each
 * replica of a service starts with it while requests wait. Any other verb is loaded module by module.
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
]);

/** A decision is replayed with Temporal's worker; a what-if decides, with models; ended jobs come from a database with code of its platform; a codec is a module of the user's, which a bundle cannot import. */
const HEAVY_FLAGS: readonly string[] = ["--decision", "--codec", "--ended", "--what-if"];

/** The file of `serve`, whose other verbs talk to a fleet (`replicas`) or only write a file. */
export const SERVING_VERB = "science/serve";

export type Bundle = "light.cjs" | "serve.cjs";

/** The file that holds all that a run needs; undefined where no file does. `env`: names the codec, too. */
export function bundleOf(
  [verb = "", ...rest]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): Bundle | undefined {
  if (verb === "serve") return rest.includes("replicas") ? undefined : "serve.cjs";
  const isLight =
    LIGHT_VERBS.has(verb) &&
    (env["ORBWEAVER_CODEC"] ?? "") === "" &&
    !rest.some((word) => HEAVY_FLAGS.some((flag) => word === flag || word.startsWith(`${flag}=`)));
  return isLight ? "light.cjs" : undefined;
}
