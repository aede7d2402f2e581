/**
 * @file Verbs that talk to the Temporal server, and read job files, and nothing else. `tools/build.mjs` puts them into one file, `light.cjs`, which loads in a third
 * of the time of its hundred modules; `main.ts` starts it. Any other verb is loaded module by module.
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

/** `env`: names the codec, too. */
export const isLightRun = (
  [verb = "", ...rest]: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): boolean =>
  LIGHT_VERBS.has(verb) &&
  (env["ORBWEAVER_CODEC"] ?? "") === "" &&
  !rest.some((word) => HEAVY_FLAGS.some((flag) => word === flag || word.startsWith(`${flag}=`)));
