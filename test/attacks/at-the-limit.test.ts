/** @file A fleet that carries as much as it may, on a real server: its run continues as new, its operators are answered, and another tenant's job ends. */

import { afterAll, beforeAll, expect, it } from "vitest";
import { startedWith } from "../../activities/started-with.ts";
import { fleetWorkflowId } from "../../protocol/messages.ts";
import { apply } from "../../scheduling/ledger/apply/apply.ts";
import { STATE_BUDGET_BYTES } from "../../scheduling/ledger/apply/transaction-size.ts";
import { hasOutside, largeRequest } from "../support/large-requests.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";
import { FLOODED_FLEET } from "./flooded-fleet.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({
    address: serverAddress(),
    fleetYaml: FLOODED_FLEET.replace(/^tenants: .*$/m, ""),
    ledger: filled,
  });
});
afterAll(() => world.stop());

/** With requests of all lengths until not even a short one of a tenant that has nothing inside comes in. */
function filled(empty: Ledger): Ledger {
  let ledger = empty;
  let count = 0;
  const senders = [7_000, 2_000, 500, 0].map((bytes) => ({ tenant: "attacker", bytes }));
  const small = Array.from({ length: 40 }, (_, at) => ({ tenant: `small-${at}`, bytes: 0 }));
  for (const { tenant, bytes } of [...senders, ...small]) {
    while (!hasOutside(ledger) && count < 30_000) {
      const entries = [largeRequest(`at-the-limit-${count++}`, { tenant, bytes })];
      ledger = apply(ledger, { kind: "inbox", entries, nowMs: Date.now() }).ledger;
    }
    ledger = withoutOutside(ledger);
  }
  return ledger;
}

const withoutOutside = ({ intake: _intake, ...ledger }: Ledger): Ledger => ledger;

it("continues as new within its budget, again and again, and serves the others meanwhile", async () => {
  const workflowId = fleetWorkflowId(world.fleet);
  const fleet = world.temporal.workflow.getHandle(workflowId);
  const runs = new Set<string>();
  for (const verb of ["drain", "undrain", "drain", "undrain"]) {
    const { runId } = await fleet.describe();
    expect((await world.cli([verb, "alpha/a4"])).code).toBe(0);
    await expect.poll(async () => (await fleet.describe()).runId === runId).toBe(false);
    const next = await fleet.describe();
    const input = await startedWith(world.temporal, { workflowId, runId: next.runId });
    const bytes = Buffer.byteLength(JSON.stringify(input));
    expect(bytes).toBeLessThanOrEqual(STATE_BUDGET_BYTES);
    if (runs.size === 0) expect(bytes).toBeGreaterThan(0.92 * STATE_BUDGET_BYTES);
    runs.add(next.runId);
    const { jobId } = await world.orbweaver.submit({
      name: "bystander",
      tenant: "bystander",
      gang: { gpus: 1 },
      run: { command: ["true"] },
    });
    await world.temporal.workflow.getHandle(jobId).result();
  }
  expect(runs.size).toBe(4);
});
