/** @file All routes of the submit service, and the search for the one of a request. */

import { CRON_ROUTES } from "./cron-routes.ts";
import { HOST_ROUTES } from "./host-routes.ts";
import { JOB_ROUTES } from "./job-routes.ts";
import { SUBMIT_ROUTES } from "./submit-routes.ts";
import { nameIn, type Route } from "./route.ts";

export const ROUTES: readonly Route[] = [
  ...HOST_ROUTES,
  ...SUBMIT_ROUTES,
  ...JOB_ROUTES,
  ...CRON_ROUTES,
];

export interface FoundRoute {
  readonly route: Route;
  readonly job: string;
}

/** `other-method`: the path has routes, of other methods. */
export function findRoute(method: string, path: string): FoundRoute | "none" | "other-method" {
  let hasPath = false;
  for (const route of ROUTES) {
    const job = jobIn(route.path, path);
    if (job === undefined) continue;
    if (route.method === method) return { route, job };
    hasPath = true;
  }
  return hasPath ? "other-method" : "none";
}

/** What stands for `{job}` or `{cron}`, empty where the pattern has none; undefined where the path is another. */
function jobIn(pattern: string, path: string): string | undefined {
  const wanted = pattern.split("/");
  const found = path.split("/");
  if (wanted.length !== found.length) return undefined;
  let job = "";
  for (const [at, part] of wanted.entries()) {
    const said = found[at] ?? "";
    if (nameIn(part) !== undefined) job = decoded(said);
    else if (part !== said) return undefined;
  }
  return job === "" && nameIn(pattern) !== undefined ? undefined : job;
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}
