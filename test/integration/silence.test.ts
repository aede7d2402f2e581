/** @file A host whose agent is gone while a job runs there: its GPUs stay taken until the host itself says that nothing runs. */

import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { afterAll, beforeAll, expect, it } from "vitest";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

function processesOf(jobId: string): readonly string[] {
  return readdirSync("/proc").filter((pid) => {
    try {
      return (
        /^\d+$/.test(pid) &&
        readFileSync(`/proc/${pid}/environ`, "utf8").includes(`ORBWEAVER_JOB_ID=${jobId}`)
      );
    } catch {
      return false;
    }
  });
}

it("a job that is cancelled meanwhile ends, and its GPUs are free only after the agent is back and has stopped what ran", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "silent",
    gang: { gpus: 2 },
    run: { command: ["sleep", "600"], grace: "1s" },
  });
  await expect.poll(() => processesOf(jobId).length).toBeGreaterThanOrEqual(2);
  const agent = world.process("agent-alpha");
  const gone = once(agent, "exit");
  agent.kill("SIGTERM");
  await gone;
  await world.until("the fleet knows that the agent is gone", (ledger) =>
    [...ledger.hosts.values()].every((host) => host.agent === undefined),
  );

  await world.temporal.workflow.getHandle(jobId).cancel();
  await expect(world.temporal.workflow.getHandle(jobId).result()).rejects.toMatchObject({
    cause: { name: "CancelledFailure" },
  });
  const ledger = await world.until("the lease is vacating", ({ leases }) =>
    [...leases.values()].some(({ state }) => state === "vacating"),
  );
  expect([...ledger.leases.values()][0]?.vacatingHosts).toEqual(["alpha/a1"]);
  expect(processesOf(jobId).length).toBeGreaterThanOrEqual(2);

  await world.startAgent("alpha");
  await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
  expect(processesOf(jobId)).toEqual([]);
});
