/** @file Bugs that only merciless worlds show: GPUs that break and are drained. As `catalogue.ts` has the others. */

import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import type { PlantedBug } from "./planted-bug.ts";

type Hosts = Ledger["hosts"];

const withoutDrains = (hosts: Hosts): Hosts =>
  new Map([...hosts].map(([id, { gpuDrains: _none, ...status }]) => [id, status]));

const withDrainsOf = (hosts: Hosts, former: Hosts): Hosts =>
  new Map(
    [...hosts].map(([id, status]) => {
      const { gpuDrains } = former.get(id) ?? {};
      return [id, gpuDrains === undefined ? status : { ...status, gpuDrains }];
    }),
  );

export const PLANTED_DRAINS: readonly PlantedBug[] = [
  {
    name: "a plan is applied as if no single GPU were drained",
    seenAt: 1,
    climate: "merciless",
    planted: {
      fleet: (machine) => ({
        ...machine,
        step: (fleet, event, nowMs) => {
          if (event.kind !== "decided") return machine.step(fleet, event, nowMs);
          const { hosts } = fleet.ledger;
          const bare = { ...fleet, ledger: { ...fleet.ledger, hosts: withoutDrains(hosts) } };
          const { state, commands } = machine.step(bare, event, nowMs);
          const ledger = { ...state.ledger, hosts: withDrainsOf(state.ledger.hosts, hosts) };
          return { state: { ...state, ledger }, commands };
        },
      }),
    },
  },
  {
    name: "what a host stops because a GPU is broken is charged to the job",
    seenAt: 1,
    climate: "merciless",
    planted: {
      job: (machine) => ({
        ...machine,
        step: (job, event, nowMs) => {
          if (event.kind !== "ran" || event.outcome.kind !== "reported")
            return machine.step(job, event, nowMs);
          const { report } = event.outcome;
          const { cause } = report;
          if (cause?.message !== "its GPU is out of service")
            return machine.step(job, event, nowMs);
          const charged = { ...report, cause: { ...cause, code: "PROCESS_EXITED" as const } };
          const outcome = { ...event.outcome, report: charged };
          return machine.step(job, { ...event, outcome }, nowMs);
        },
      }),
    },
  },
];
