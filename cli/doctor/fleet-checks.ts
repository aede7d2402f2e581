/** @file What can be wrong with a fleet: no workers, hosts without agents or silent ones, words that it refused, rules that wait for a commit. */

import type { Client } from "@temporalio/client";
import type { Ledger, OrbweaverClient } from "../../client/index.ts";
import { livingProcesses } from "../../client/rules/living-processes.ts";
import { CONTROL_TASK_QUEUES } from "../../protocol/names.ts";
import { NEWEST_RULES } from "../../scheduling/ledger/ledger.ts";
import { outageOf, type Outage } from "../../scheduling/ledger/rules/grant-check.ts";
import type { UpState } from "../../workers/state.ts";
import { counted } from "../terminal/duration.ts";
import { isGoneHere } from "../verbs/fleet/upgrade.ts";
import { checked, ok, problem, warning, type Finding } from "./finding.ts";

export interface FleetPlace {
  readonly fleet: string;
  readonly client: OrbweaverClient;
  readonly temporal: Client;
  readonly state: UpState | undefined;
  readonly nowMs: number;
}

export async function fleetFindings(place: FleetPlace): Promise<readonly Finding[]> {
  const { fleet, client } = place;
  let ledger: Ledger;
  try {
    ledger = await client.fleet();
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    return [problem("fleet", text, `orbweaver up --fleet ${fleet}`)];
  }
  return [
    ok(
      "fleet",
      `${fleet}: ${counted(ledger.leases.size, "lease")}, ${counted(ledger.requests.size, "job")} waiting`,
    ),
    rules(fleet, ledger),
    await checked("workers", "orbweaver up", () => workers(place, ledger)),
    agents(ledger),
    await checked("trust", "orbweaver fleet show", () => trust(client, ledger)),
    letters(ledger),
  ];
}

function rules(fleet: string, { applyVersion }: Ledger): Finding {
  if (applyVersion >= NEWEST_RULES) return ok("rules", `${applyVersion}, the newest`);
  return warning(
    "rules",
    `${applyVersion}; this release knows ${NEWEST_RULES}`,
    `orbweaver fleet upgrade ${fleet}`,
  );
}

async function workers({ temporal, state, nowMs }: FleetPlace, ledger: Ledger): Promise<Finding> {
  const mode = state?.control?.mode;
  if (mode !== undefined && mode !== "always-on")
    return ok("workers", "start when there is work, and end when idle");
  const living = await livingProcesses(temporal, ledger, { nowMs, isGone: isGoneHere });
  const without = CONTROL_TASK_QUEUES.filter(
    (queue) => !living.some(({ taskQueue }) => taskQueue === queue),
  );
  if (without.length === 0) return ok("workers", "each task queue of the control plane is served");
  return problem(
    "workers",
    `nobody serves ${without.join(", ")}`,
    "orbweaver up here, or orbweaver worker --role fleet|jobs|solver where they belong",
  );
}

const REMEDIES: Readonly<Record<Outage, string>> = {
  agentless: "start `orbweaver agent` there",
  silent: "look at the machine and its network; `orbweaver fence` gives it up",
  fenced: "start `orbweaver agent` there again",
  drained: "`orbweaver undrain` when it is well",
  "gpus-drained": "`orbweaver undrain --gpu` when they are well",
};

function agents({ shape, hosts }: Ledger): Finding {
  const all = shape.clusters.flatMap((cluster) => cluster.hosts);
  const away = all.flatMap(({ id }) => {
    const outage = outageOf(hosts.get(id));
    return outage === undefined ? [] : [{ id, outage }];
  });
  const [first] = away;
  if (first === undefined) return ok("agents", `${counted(all.length, "host")} ready`);
  const counts = new Map<Outage, number>();
  for (const { outage } of away) counts.set(outage, (counts.get(outage) ?? 0) + 1);
  const text = [...counts].map(([name, count]) => `${count} ${NAMES[name]}`).join(", ");
  const remedy = [...counts.keys()].map((name) => REMEDIES[name]).join("; ");
  const said = `of ${counted(all.length, "host")}: ${text} (${first.id} first)`;
  const partly = counts.get("gpus-drained") ?? 0;
  return away.length - partly === all.length
    ? problem("agents", said, remedy)
    : warning("agents", said, remedy);
}

const NAMES: Readonly<Record<Outage, string>> = {
  agentless: "without an agent",
  silent: "silent",
  fenced: "fenced",
  drained: "drained",
  "gpus-drained": "with drained GPUs",
};

async function trust(client: OrbweaverClient, ledger: Ledger): Promise<Finding> {
  const { shares } = await client.trust(ledger);
  const open = shares.find(({ trust: whose }) => whose === "namespace");
  if (open === undefined) return ok("trust", "hosts start signed jobs only");
  return warning(
    "trust",
    `${counted(open.hosts, "host")} start the jobs of everybody who reaches the namespace`,
    "orbweaver down, then up without --trust namespace, or with --policy FILE",
  );
}

function letters({ deadLetters }: Ledger): Finding {
  const times = deadLetters.reduce((sum, { times: count = 1 }) => sum + count, 0);
  if (times === 0) return ok("dead letters", "none");
  return warning(
    "dead letters",
    `the fleet has refused ${counted(times, "message")} of late`,
    "orbweaver fleet show lists the last ones, with their senders",
  );
}
