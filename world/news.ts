/**
 * @file What fleets are told beside the protocol of leases: which model serves a cluster, what links between sites were measured, which leases have complete
 * checkpoints, and that an agent ends on purpose. Learners and monitors themselves are not modelled.
 */

import { clusterOf } from "../domain/values/ids.ts";
import type { InboxEntry } from "../domain/lease/inbox-entry.ts";
import { gbps, ms } from "../domain/values/units.ts";
import { presenceWorkflowId } from "../protocol/names.ts";
import { addressOf } from "./hosts/agent-presence.ts";
import type { Host } from "./hosts/host.ts";
import type { Process } from "./kernel/process.ts";
import type { Server } from "./temporal/server.ts";
import type { Fault } from "./settings.ts";

type News = Extract<Fault, { readonly kind: "news" }>;

export interface NewsPorts {
  readonly server: Server;
  /** Workflow and name. */
  readonly fleet: { readonly id: string; readonly name: string };
  readonly host: Host;
  readonly agent: Process;
}

/** Far longer than a probe takes to come again. */
const VALID_MS = 60_000;

/** True where the agent has ended: somebody has to start it again. */
export function tellNews(
  { server, fleet, host, agent }: NewsPorts,
  { what, target }: News,
): boolean {
  if (what === "goodbye") {
    // One that has work ends no sooner than that is over.
    if (!agent.isUp() || host.running.size > 0 || isBusy(host)) return false;
    const { epoch } = addressOf(host, agent);
    const presence = presenceWorkflowId(fleet.name, clusterOf(host.id));
    server.kernel.tell("an operator", host.id, () => "ends the agent");
    server.signal(presence, { name: "deregister", payload: { epoch } });
    agent.crash();
    return true;
  }
  const entry = entryOf(what, { host, target, nowMs: server.clockMs() });
  if (entry !== undefined) server.signal(fleet.id, { name: "inbox", payload: [entry] });
  return false;
}

const isBusy = ({ launches }: Host): boolean =>
  [...launches.values()].some(({ phase }) => phase !== "over");

function entryOf(
  what: Exclude<News["what"], "goodbye">,
  { host, target, nowMs }: { readonly host: Host; readonly target: number; readonly nowMs: number },
): InboxEntry | undefined {
  switch (what) {
    case "model":
      return {
        kind: "model",
        cluster: clusterOf(host.id),
        version: `v${target % 7}`,
        generation: 1 + (target % 7),
      };
    case "links":
      return {
        kind: "links",
        links: [
          {
            from: "site-0",
            to: "site-1",
            checkedAtMs: nowMs,
            validUntilMs: nowMs + VALID_MS,
            ...(target % 3 === 0
              ? { outageSinceMs: nowMs }
              : {
                  measured: {
                    bandwidthGbps: gbps(100),
                    spreadGbps: gbps(1 + (target % 9)),
                    roundTripMs: ms(10),
                    atMs: nowMs,
                    probes: 1 + (target % 20),
                  },
                }),
          },
        ],
      };
    case "checkpoints": {
      const marks = [...host.running.values()].map(({ leaseId }) => ({
        lease: leaseId,
        atMs: nowMs,
      }));
      return marks.length === 0 ? undefined : { kind: "checkpointed", marks };
    }
  }
}
