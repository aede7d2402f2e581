/**
 * @file The deployment version as which a worker that always runs serves its task queue: none until rules are committed, then
 * `rules-N` for the committed rules N.
 *
 * So deploying a release changes no routing: its workers serve beside those of the former one, and either may be stopped. After the
 * commit the server gives them the tasks alone. A running worker looks at the routing every few seconds and changes its version with
 * it; it ends when rules are committed that it does not know.
 */

import type { Client } from "@temporalio/client";
import type { WorkerDeploymentVersion } from "@temporalio/common";
import { readRouting, refuseOlder, rulesOfBuildId } from "../client/rules/routing.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { NEWEST_RULES } from "../scheduling/ledger/ledger.ts";

/** Undefined: unversioned. Throws NOT_ALLOWED when newer rules are committed than this release knows. */
export async function servedVersion(
  client: Client,
  taskQueue: string,
): Promise<WorkerDeploymentVersion | undefined> {
  const routing = await readRouting(client, taskQueue);
  refuseOlder(routing, NEWEST_RULES);
  const { current } = routing;
  const rules = current === undefined ? undefined : rulesOfBuildId(current);
  if (current === undefined || rules === undefined || rules > NEWEST_RULES) return undefined;
  return { deploymentName: taskQueue, buildId: current };
}

const LOOK_EVERY_MS = 3_000;

/** A version to serve instead, or the reason to serve no longer. */
export type RoutingChange =
  | { readonly kind: "moved"; readonly version: WorkerDeploymentVersion | undefined }
  | { readonly kind: "refused"; readonly error: OrbweaverError };

/** Calls `onChange` once, when `version` is no longer the one to serve; returns what ends the watch. */
export function watchServedVersion(
  client: Client,
  {
    taskQueue,
    version,
  }: { readonly taskQueue: string; readonly version: WorkerDeploymentVersion | undefined },
  onChange: (change: RoutingChange) => void,
): () => void {
  let isLooking = false;
  const timer = setInterval(() => {
    if (isLooking) return;
    isLooking = true;
    void changeOf(client, taskQueue, version)
      .then((change) => {
        if (change === undefined) return;
        clearInterval(timer);
        onChange(change);
      })
      .finally(() => {
        isLooking = false;
      });
  }, LOOK_EVERY_MS);
  return () => clearInterval(timer);
}

async function changeOf(
  client: Client,
  taskQueue: string,
  version: WorkerDeploymentVersion | undefined,
): Promise<RoutingChange | undefined> {
  try {
    const next = await servedVersion(client, taskQueue);
    return next?.buildId === version?.buildId ? undefined : { kind: "moved", version: next };
  } catch (error) {
    // Otherwise the server is away for a moment.
    return error instanceof OrbweaverError ? { kind: "refused", error } : undefined;
  }
}
