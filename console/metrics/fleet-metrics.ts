/** @file The metrics of one fleet for Prometheus: counters from its history, gauges from its ledger, and whether both are up to date. */

import { Gauge, Registry, type OpenMetricsContentType } from "prom-client";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import type { Answer } from "../http/server.ts";
import type { Folded } from "../follow/fleet-run.ts";
import { fleetCounters } from "./fleet-counters.ts";
import { fleetGauges } from "./fleet-gauges.ts";
import { tallyCounters } from "./tally-counters.ts";
import { useGauges } from "./use-gauges.ts";
import type { Tally } from "../history/tallies.ts";
import type { FleetUse } from "../use/follow-use.ts";
import { tenantLabels } from "./labels.ts";

export interface FleetMetrics {
  readonly fold: (folded: Folded) => void;
  /** What agents tell of their GPUs now. */
  readonly noteUse: (use: FleetUse) => void;
  /** The exposition; `atMs` is the time of the last event, and `isReached` whether the history can be read. */
  readonly expose: (
    ledger: Ledger,
    now: {
      readonly nowMs: number;
      readonly atMs: number;
      readonly isReached: boolean;
      /** Of the history database; absent where none is kept. */
      readonly tallies?: readonly Tally[] | undefined;
    },
  ) => Promise<Answer>;
}

export function createFleetMetrics(): FleetMetrics {
  const registry = new Registry<OpenMetricsContentType>();
  registry.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  const tenantOf = tenantLabels();
  const { fold } = fleetCounters(registry, tenantOf);
  const gauges = fleetGauges(registry, tenantOf);
  const readUse = useGauges(registry, tenantOf);
  const readTallies = tallyCounters(registry);
  let use: FleetUse = new Map();
  const registers = [registry];
  const reached = new Gauge({
    name: "orbweaver_history_reached",
    help: "1 while the fleet's history can be read; at 0 everything here is the last known state.",
    registers,
  });
  const atSeconds = new Gauge({
    name: "orbweaver_history_last_event_timestamp_seconds",
    help: "When the last event of the fleet's history happened.",
    registers,
  });
  return {
    fold,
    noteUse: (now) => void (use = now),
    async expose(ledger, { nowMs, atMs, isReached, tallies }) {
      gauges.read(ledger, nowMs);
      readTallies(tallies);
      readUse(ledger, use);
      reached.set(isReached ? 1 : 0);
      atSeconds.set(atMs / 1_000);
      return { status: 200, type: registry.contentType, body: await registry.metrics() };
    },
  };
}
