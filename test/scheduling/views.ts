/** @file The view that a cycle has of a ledger, for tests of single questions to it. */

import type { Reservation } from "../../domain/lease/lease.ts";
import type { PendingRequest } from "../../domain/lease/plan.ts";
import type { CycleView } from "../../scheduling/admission/feasibility.ts";
import { openCapacity } from "../../scheduling/capacity/capacity.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { gangRequest, host, type RequestSpec } from "./builders.ts";

export const pendingRequest = (spec: RequestSpec = {}): PendingRequest => ({
  ...gangRequest(spec),
  arrival: 0,
});

export const viewAt = (ledger: Ledger, nowMs = 0): CycleView => ({
  capacity: openCapacity(ledger),
  claims: new Map(),
  nowMs,
});

export const withReservations = (ledger: Ledger, ...all: readonly Reservation[]): Ledger => ({
  ...ledger,
  reservations: new Map(all.map((each) => [each.jobId, each])),
});

/** The same fleet with these hosts drained, whatever `apply` would do beside that. */
export const drained = (ledger: Ledger, ...hosts: readonly string[]): Ledger => ({
  ...ledger,
  hosts: new Map(
    [...ledger.hosts].map(([id, status]) => [
      id,
      hosts.some((name) => host(name) === id) ? { ...status, isDrained: true } : status,
    ]),
  ),
});

/** The same fleet with these GPUs of a host drained. */
export function gpusDrained(ledger: Ledger, name: string, mask: number): Ledger {
  const id = host(name);
  const status = ledger.hosts.get(id) ?? { isDrained: false };
  const gpuDrains = [{ mask, reason: "test", sinceMs: 0 }];
  return { ...ledger, hosts: new Map([...ledger.hosts, [id, { ...status, gpuDrains }]]) };
}
