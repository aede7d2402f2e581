/** @file Runs the endpoint of a service until it is stopped: the line, the replicas, and HTTP. Replicas stay, for the next endpoint. */

import { OrbweaverError } from "../../domain/values/failure.ts";
import type { ReplicaRule } from "../../domain/job/service-rule.ts";
import { keepReplicas, type ReplicaJobs } from "./replica-keeper.ts";
import {
  ENDPOINT_LIMITS,
  openEndpoint,
  type EndpointParts,
  type EndpointPlace,
} from "./service-http.ts";
import { countService, type ServiceGoalTimes } from "./service-metrics.ts";
import { createServiceRouter, type RouterLimits } from "./service-router.ts";

export interface EndpointRequest {
  readonly name: string;
  readonly rule: ReplicaRule;
  readonly goal?: ServiceGoalTimes;
  readonly jobs: ReplicaJobs;
  readonly listen: EndpointPlace;
  readonly guard: EndpointParts["guard"];
  readonly replicaToken?: string;
  readonly line: RouterLimits;
}

export interface EndpointEvents {
  readonly say: (line: string) => void;
  readonly onReady: (port: number) => void;
}

/** Resolves when the endpoint has drained after `ended`. */
export async function runEndpoint(
  { name, rule, goal, jobs, listen, guard, replicaToken, line }: EndpointRequest,
  { say, onReady }: EndpointEvents,
  ended: AbortSignal,
): Promise<void> {
  const router = createServiceRouter(line);
  const keeper = await keepReplicas({ rule, jobs, router, say });
  try {
    const parts = {
      ...{ name, router, keeper, guard, limits: ENDPOINT_LIMITS },
      counts: countService(goal),
      ...(replicaToken !== undefined && { replicaToken }),
    };
    const endpoint = await openEndpoint(parts, listen).catch((error: unknown) => {
      const why = error instanceof Error ? error.message : String(error);
      throw new OrbweaverError(
        "BAD_INPUT",
        `${listen.host}:${listen.port} cannot be used for listening: ${why}. Name another with --port or --host.`,
      );
    });
    onReady(endpoint.port);
    await new Promise<void>((resolve) => {
      if (ended.aborted) resolve();
      ended.addEventListener("abort", () => resolve(), { once: true });
    });
    say("draining: requests in service are answered, new ones are refused");
    await endpoint.drain();
  } finally {
    await keeper.close();
  }
}
