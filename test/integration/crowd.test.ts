/** @file Many jobs at once, and a process of the control plane killed in the middle: everything still ends as it should. */

import { readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

const FLEET = `
name: crowd
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: "a[1-4]", gpus: 8, type: H100 }
`;

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: FLEET });
});
afterAll(() => world.stop());

const submitMany = (count: number, name: string, seconds = 0.2) =>
  Promise.all(
    Array.from({ length: count }, (_, index) =>
      world.orbweaver.submit({
        name,
        gang: { gpus: 1 + (index % 3) },
        run: { command: ["sleep", String(seconds)] },
      }),
    ),
  );

async function wantAllCompleted(jobs: readonly { readonly jobId: string }[]): Promise<void> {
  const results = await Promise.all(
    jobs.map(
      ({ jobId }) =>
        world.temporal.workflow.getHandle(jobId).result() as Promise<{ attempts: number }>,
    ),
  );
  expect(results.map((result) => result.attempts)).toEqual(jobs.map(() => 1));
  await world.until(
    "nothing is leased or waiting",
    (ledger) => ledger.leases.size === 0 && ledger.requests.size === 0,
  );
}

describe("a crowd of jobs", () => {
  it("200 at once all run once and end", async () => {
    await wantAllCompleted(await submitMany(200, "crowd"));
  });

  it("ends as it should when the jobs' worker, then the fleet's worker, is killed in the middle", async () => {
    const jobs = await submitMany(40, "kill", 3);
    await world.until("some run", (ledger) => ledger.leases.size > 5);
    await world.kill("jobs");
    await world.start("jobs", ["worker", "--role", "jobs"]);
    await world.until("some run again", (ledger) => ledger.leases.size > 0);
    await world.kill("fleet");
    await world.start("fleet", ["worker", "--role", "fleet"]);
    await wantAllCompleted(jobs);
  });

  it("ends as it should when the agent is killed and started again: what runs is taken over, nothing starts twice", async () => {
    const starts = path.join(world.stateDir, "starts");
    const go = path.join(world.stateDir, "go");
    const { jobId } = await world.orbweaver.submit({
      name: "adopted",
      gang: { gpus: 2 },
      run: {
        command: ["sh", "-c", `echo "$RANK" >> ${starts}; until [ -e ${go} ]; do sleep 0.1; done`],
      },
    });
    const started = async (): Promise<readonly string[]> =>
      (await readFile(starts, "utf8").catch(() => "")).split("\n").filter(Boolean).sort();
    await expect.poll(started).toEqual(["0", "1"]);
    await world.kill("agent-alpha");
    await world.startAgent("alpha");
    await writeFile(go, "");
    expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ attempts: 1 });
    expect(await started()).toEqual(["0", "1"]);
  });
});
