/**
 * @file Hosts that fail and come back: a Poisson process over all hosts, each failure at a host drawn evenly.
 *
 * A failed host is drained, every job on it crashes, and after `repairMs` it is back. A failure of a host that is down already
 * counts for nothing.
 */

import type { HostId } from "../domain/values/ids.ts";
import type { Random } from "../lib/random.ts";
import type { Agenda } from "./agenda.ts";
import type { FleetCycles } from "./fleet-cycles.ts";
import type { Metrics } from "./metrics.ts";
import type { FailureRates } from "./options.ts";

export interface SimulatedHost {
  readonly id: HostId;
  readonly gpuCount: number;
}

interface HostFailures {
  /** Enters the next failure, if hosts fail at all. */
  readonly enterNext: () => void;
  readonly fail: () => void;
  readonly restore: (host: HostId) => void;
  readonly down: ReadonlySet<HostId>;
}

interface HostFailuresOptions {
  readonly hosts: readonly SimulatedHost[];
  readonly failures: FailureRates;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly agenda: Agenda;
  readonly cycles: FleetCycles;
  readonly crashOn: (host: HostId) => void;
}

export function openHostFailures(options: HostFailuresOptions): HostFailures {
  const { hosts, failures, random, metrics, agenda, cycles, crashOn } = options;
  const { nowMs } = agenda;
  const down = new Set<HostId>();

  const enterNext = (): void => {
    if (failures.hostMtbfMs === Infinity) return;
    const afterMs = random.exponential(failures.hostMtbfMs / hosts.length);
    agenda.enter(nowMs() + afterMs, { kind: "host-fails" });
  };

  return {
    enterNext,
    down,
    fail() {
      enterNext();
      const host = hosts[random.below(hosts.length)];
      if (host === undefined || down.has(host.id)) return;
      down.add(host.id);
      cycles.enqueue({ kind: "drain", hosts: [host.id], reason: "failed", nowMs: nowMs() });
      metrics.changeService(-host.gpuCount, nowMs());
      agenda.enter(nowMs() + failures.repairMs, { kind: "host-back", host: host.id });
      crashOn(host.id);
      cycles.request();
    },
    restore(id) {
      down.delete(id);
      cycles.enqueue({ kind: "undrain", hosts: [id], nowMs: nowMs() });
      metrics.changeService(hosts.find((host) => host.id === id)?.gpuCount ?? 0, nowMs());
      cycles.request();
    },
  };
}
