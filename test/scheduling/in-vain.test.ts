/** @file Which searches for victims a cycle need not make again. */
import { expect, test } from "vitest";
import { tenantId } from "../../domain/ids.ts";
import { ms } from "../../domain/units.ts";
import type { PendingRequest } from "../../domain/plan.ts";
import { isInVain, noteInVain, type VainSearch } from "../../scheduling/in-vain.ts";
import { openCapacity } from "../../scheduling/capacity.ts";
import { fleetShape, readyLedger } from "./builders.ts";
import { pendingOf } from "./queue/pool.ts";

const waiting = (change: Partial<PendingRequest> = {}): PendingRequest => ({
  ...pendingOf("a", { class: "training", tenant: "t", gpus: 8, atMs: 0, runMs: 1 }, 0),
  ...change,
});

/** A cycle in which `first` searched in vain. */
function searched(first: PendingRequest) {
  const capacity = openCapacity(readyLedger(fleetShape([{ hosts: [{}] }])));
  const inVain: VainSearch[] = [];
  const scene = { capacity, claims: new Map(), nowMs: 10 };
  const run = { scene, grants: [], evict: [], inVain, nowMs: 10 };
  noteInVain(run, first);
  return run;
}

const asked = waiting();
const first = { ...asked, gang: { ...asked.gang, timeoutMs: ms(0) } };
const { gang, constraints } = first;

test.each<{ name: string; change: Partial<PendingRequest>; want: boolean }>([
  { name: "the same gang of another job", change: { arrival: 4, priority: 9 }, want: true },
  { name: "another tenant", change: { tenant: tenantId("u") }, want: false },
  { name: "another class", change: { class: "interactive" }, want: false },
  { name: "a larger gang", change: { gang: { ...gang, gpus: 9 } }, want: false },
  { name: "a smaller least size", change: { gang: { ...gang, min: 1 } }, want: false },
  { name: "other constraints", change: { constraints: { ...constraints } }, want: false },
  { name: "an array", change: { slots: 3 }, want: false },
  { name: "hosts to avoid", change: { avoidHosts: [] }, want: false },
  {
    name: "one whose timeout is to come",
    change: { gang: { ...gang, timeoutMs: ms(1_000) } },
    want: false,
  },
])("after a search in vain, $name: $want", ({ change, want }) => {
  expect(isInVain(searched(first), waiting({ gang, constraints, ...change }))).toBe(want);
});

test("a change of the capacity, a grant or an eviction calls for another search", () => {
  const run = searched(first);
  expect(isInVain(run, first)).toBe(true);
  const grant = { name: "g", tenant: first.tenant, gpus: [], endAtMs: 1 };
  expect(isInVain({ ...run, grants: [grant] }, first)).toBe(false);
  run.scene.capacity.version += 1;
  expect(isInVain(run, first)).toBe(false);
});
