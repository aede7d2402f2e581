/** @file What is left of a world that has been calm: jobs that have not ended, and what they have left behind. */

import type { HostId } from "../../domain/values/ids.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import { drainedMask } from "../../scheduling/ledger/rules/gpu-drains.ts";
import type { Host } from "../hosts/host.ts";
import type { DrawnJob } from "../settings.ts";
import { stageOf, type JobRun } from "../shells/job-life.ts";

export interface Remains {
  readonly jobs: readonly DrawnJob[];
  readonly jobRuns: ReadonlyMap<string, JobRun>;
  readonly hosts: ReadonlyMap<HostId, Host>;
  readonly fleet: FleetState | undefined;
}

/** In words; empty when everything has ended and nothing is held. */
export function unsettled({ jobs, jobRuns, hosts, fleet }: Remains): readonly string[] {
  const open = jobs.flatMap(({ id }) => {
    const run = jobRuns.get(id);
    if (run === undefined) return [`${id} was never started`];
    if (!run.isOpen()) return [];
    const life = run.state();
    return [`${id} is ${life === undefined ? "not begun" : stageOf(life)}`];
  });
  const running = [...hosts.values()].flatMap(({ id, running: leases }) =>
    [...leases.keys()].map((lease) => `${lease} runs on ${id}`),
  );
  if (fleet === undefined) return [...open, ...running, "the fleet has not begun"];
  const { leases, requests, outbox, reservations, intake } = fleet.ledger;
  const credits = [...(intake?.lobbies.values() ?? [])].flatMap((lobby) => [
    ...lobby.credits.keys(),
  ]);
  const left = [
    ...open,
    ...running,
    ...[...leases.values()].map(({ id, jobId, state }) => `${id} of ${jobId} is ${state}`),
    ...[...requests.keys()].map((id) => `the request of ${id} waits`),
    ...[...outbox.keys()].map((id) => `the grant of ${id} was not delivered`),
    ...[...(reservations?.keys() ?? [])].map((id) => `GPUs are reserved for ${id}`),
    ...credits.map((credit) => `credit ${credit} is out`),
    ...[...hosts.keys()]
      .filter((id) => drainedMask(fleet.ledger.hosts.get(id)) !== 0)
      .map((id) => `GPUs of ${id} are drained`),
  ];
  return left.length === 0 ? left : [...left, ...away(fleet, hosts)];
}

/** Hosts that may be the reason: the fleet offers nothing there. */
function away({ ledger }: FleetState, hosts: Remains["hosts"]): readonly string[] {
  return [...hosts.keys()].flatMap((id) => {
    const status = ledger.hosts.get(id);
    const why =
      status?.agent === undefined
        ? "has no agent"
        : status.isFenced === true
          ? "is fenced"
          : status.isDrained
            ? "is drained"
            : status.silentSinceMs !== undefined
              ? "is silent"
              : undefined;
    return why === undefined ? [] : [`${id} ${why}`];
  });
}
