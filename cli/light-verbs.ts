/**
 * @file Verbs that talk to the Temporal server and to nothing else. `tools/build.mjs` puts them into one file, `light.cjs`, which loads in a third
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
  ["retry", "jobs/retry"],
  ["hold", "jobs/hold"],
  ["release", "jobs/release"],
  ["drain", "fleet/drain"],
  ["undrain", "fleet/undrain"],
  ["fence", "fleet/fence"],
]);

/** Replays histories, with Temporal's worker. */
const HEAVY_FLAG = "--decision";

export const isLightRun = ([verb = "", ...rest]: readonly string[]): boolean =>
  LIGHT_VERBS.has(verb) && !rest.includes(HEAVY_FLAG);
