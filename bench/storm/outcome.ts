/** @file The bars of a storm. */

import { atLeast, atMost, barOf, exactly, REPORTED, unmeasured, type Bar } from "../bar.ts";
import { quantile } from "../statistics.ts";
import type { StormOutcome } from "./storm.ts";
import type { Recovery } from "./control-faults.ts";

const SERVER_RECOVERY_MS = 5_000;
const FLEET_RECOVERY_MS = 10_000;

export function stormBars(
  { faults, jobs, findings, books, recoveries, replays }: StormOutcome,
  wantedFaults: number,
): readonly Bar[] {
  const of = (which: Recovery["of"]): number[] =>
    recoveries.filter((recovery) => recovery.of === which).map(({ ms }) => ms);
  const none = (id: string, unit: string, found: readonly string[]): Bar =>
    barOf({ id, unit, target: exactly(0), got: found.length, ...noteOf(found) });
  const server = of("server");
  const fleet = of("fleet");
  return [
    barOf({ id: "faults-injected", unit: "faults", target: atLeast(wantedFaults), got: faults }),
    barOf({ id: "jobs-run", unit: "jobs", target: REPORTED, got: jobs }),
    none("jobs-lost", "jobs", findings.lost),
    none("started-twice-at-once", "processes", findings.startedTwice),
    none("leases-leaked", "leases", findings.leaked),
    none("gpus-in-two-leases", "GPUs", findings.doubleLeased),
    none("ledger-against-hosts", "differences", findings.disagreements),
    books === undefined
      ? unmeasured(
          { id: "books-against-histories", unit: "differences", target: exactly(0) },
          "the server cannot hand out a run of the fleet any more",
        )
      : none("books-against-histories", "differences", books),
    barOf({
      id: "server-return-to-grant-p99",
      unit: "ms",
      target: atMost(SERVER_RECOVERY_MS),
      got: server.length === 0 ? undefined : quantile(server, 0.99),
      note: `${String(server.length)} returns`,
    }),
    barOf({
      id: "fleet-termination-to-grant-max",
      unit: "ms",
      target: atMost(FLEET_RECOVERY_MS),
      got: fleet.length === 0 ? undefined : quantile(fleet, 1),
      note: `${String(fleet.length)} terminations`,
    }),
    barOf({
      id: "histories-that-do-not-replay",
      unit: "histories",
      target: exactly(0),
      got: replays.count === 0 ? undefined : replays.failed.length,
      note: `${String(replays.count)} replayed, ${String(replays.unreadable.length)} that the server could not hand out`,
    }),
  ];
}

const noteOf = ([first]: readonly string[]): { readonly note?: string } =>
  first === undefined ? {} : { note: first };
