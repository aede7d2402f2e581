/**
 * @file The activity that improves the plan of a served model while it runs.
 *
 * A model that is gone from the machine that plans, a GPU type of unknown speed, and a thread that outlives its limit give no answer:
 * the plan stays as it is. So it does while the worker improves another one: orders wait for no turn, because they would take the slots in which
 * jobs have their launch extras made.
 */

import { existsSync } from "node:fs";
import type { Client } from "@temporalio/client";
import type { InferenceFacts } from "../../domain/model/inference-facts.ts";
import { clusterOf } from "../../domain/values/ids.ts";
import { shapeQuery } from "../../protocol/messages.ts";
import type { PolishActivities, PolishOrder } from "../../protocol/launch-extras-contract.ts";
import { polishInThread } from "../serving-planner-port.ts";
import { hostOfLease, servedModel } from "./inference.ts";
import { topologiesOver } from "./providers.ts";

/** Above the limit: for reading the model, and for a solver that is late. */
const SLACK_MS = 60_000;
const BEAT_MS = 5_000;

export interface PolishPorts {
  readonly client: Client;
  readonly storeDir: string;
  /** Tells the server that the activity lives. */
  readonly beat: () => void;
  /** Aborts when the order is no longer wanted, and when the worker ends. */
  readonly cancelled: () => AbortSignal;
}

export function createPolishActivities(ports: PolishPorts): PolishActivities {
  let isBusy = false;
  return {
    async polishPlan(order) {
      if (isBusy) return null;
      isBusy = true;
      try {
        return await polishedPlan(order, ports);
      } finally {
        isBusy = false;
      }
    },
  };
}

async function polishedPlan(
  { fleetWorkflowId, spec, gpus, limitMs }: PolishOrder,
  { client, storeDir, beat, cancelled }: PolishPorts,
): Promise<InferenceFacts | null> {
  const file = servedModel(spec);
  if (file === undefined || !existsSync(file)) return null;
  const clusters = [...new Set(gpus.map(({ host }) => clusterOf(host)))];
  const shape = await client.workflow.getHandle(fleetWorkflowId).query(shapeQuery, clusters);
  const lease = await hostOfLease({ fleetWorkflowId, gpus }, shape, {
    topologyOf: topologiesOver(client, storeDir),
  });
  if (lease?.kind !== "host") return null;
  const beats = setInterval(beat, BEAT_MS);
  const ended = cancelled();
  const late = new AbortController();
  const limit = setTimeout(() => late.abort(), limitMs + SLACK_MS);
  try {
    const signal = AbortSignal.any([late.signal, ended]);
    const facts = await polishInThread({ file, gpuHost: lease.host, limitMs }, signal);
    return facts ?? null;
  } catch {
    // Another worker may do it instead of one that ends.
    ended.throwIfAborted();
    return null;
  } finally {
    clearInterval(beats);
    clearTimeout(limit);
  }
}
