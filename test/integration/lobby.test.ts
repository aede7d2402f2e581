/** @file Jobs for which a fleet has no place: they wait outside, are called in fairly, and survive the end of their lobby and of their fleet. */

import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect, inject, it } from "vitest";
import type { JobHandle } from "../../client/index.ts";
import { fleetWorkflowId, lobbyWorkflowId } from "../../protocol/messages.ts";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import { sumOf } from "../../cli/text/lobby-place.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { startWorld, type World } from "../support/world.ts";

const PLACES = 12;
/** Two GPUs, and twelve places: three shares with one place for each class, and three that all share. */
const TWO_GPUS = `
name: small
tenants:
  - { name: red, weight: 1 }
  - { name: blue, weight: 1 }
clusters:
  - name: alpha
    site: here
    jurisdiction: EU
    simulated: true
    fabric: { bandwidth: 100 Gbps }
    hosts:
      - { name: a1, gpus: 2, type: H100 }
`;

let world: World;
let flags = 0;

beforeAll(async () => {
  world = await startWorld({
    address: inject("temporalAddress"),
    fleetYaml: TWO_GPUS,
    places: PLACES,
  });
});
afterAll(() => world.stop());

async function submit(tenant: string, script: string, gpus = 1): Promise<JobHandle> {
  const { jobId } = await world.orbweaver.submit({
    name: `outside-${tenant}`,
    tenant,
    gang: { gpus },
    run: { command: ["sh", "-c", script], grace: "1s" },
  });
  return world.orbweaver.job(jobId);
}

/** A job that has all GPUs until the returned function is called. */
async function blocked(): Promise<() => Promise<void>> {
  const flag = path.join(world.stateDir, `flag-${String((flags += 1))}`);
  const blocker = await submit("red", `while [ ! -e ${flag} ]; do sleep 0.1; done`, 2);
  await world.until("the blocker has the fleet", ({ leases }) => leases.size === 1);
  return async () => {
    await writeFile(flag, "");
    await blocker.result();
  };
}

async function submitMany(tenant: string, count: number): Promise<readonly JobHandle[]> {
  const jobs: JobHandle[] = [];
  for (let at = 0; at < count; at += 1) jobs.push(await submit(tenant, "true"));
  return jobs;
}

const outsideOf = ({ intake }: Ledger, tenant: TenantId): number => {
  const waiting = intake?.lobbies.get(tenant)?.waiting;
  return waiting === undefined ? 0 : sumOf(waiting);
};
const RED = tenantId("red");
const BLUE = tenantId("blue");

const lobbyOf = (tenant: TenantId) =>
  world.temporal.workflow.getHandle(lobbyWorkflowId(world.fleet, tenant));

async function untilListed(job: JobHandle): Promise<void> {
  await expect
    .poll(async () => (await job.explain()).lobby, { timeout: 30_000, interval: 200 })
    .toBeDefined();
}

it("lists what does not fit, says so, and calls in both tenants' jobs in turn", async () => {
  const release = await blocked();
  const red = await submitMany("red", 10);
  const blue = await submitMany("blue", 6);
  await world.until(
    "jobs of both tenants wait outside",
    (ledger) => outsideOf(ledger, RED) >= 5 && outsideOf(ledger, BLUE) >= 4,
  );
  const [last, held, gone] = [red[9], red[8], red[7]];
  if (last === undefined || held === undefined || gone === undefined) throw new Error("no jobs");
  await untilListed(last);
  const { view, lobby } = await last.explain();
  expect(view.pending).toMatchObject({ code: "QueueFull" });
  expect(lobby?.place).toBe(lobby?.waiting);
  const explained = await world.cli(["explain", last.jobId]);
  expect(explained.stdout).toMatch(/waits: QueueFull/);
  expect(explained.stdout).toMatch(/training jobs of red outside/);
  expect((await world.cli(["queue"])).stdout).toMatch(/more jobs wait outside/);
  await gone.cancel();
  expect((await gone.outcome()).kind).toBe("cancelled");
  await held.hold();
  await release();
  for (const job of [...red.slice(0, 7), last, ...blue]) await job.result();
  await held.release();
  await held.result();
  await world.until(
    "nobody waits outside",
    (ledger) => outsideOf(ledger, RED) + outsideOf(ledger, BLUE) === 0,
  );
});

it("loses no job when a lobby is terminated: the fleet's next word starts it again", async () => {
  const release = await blocked();
  const red = await submitMany("red", 9);
  const last = red[8];
  if (last === undefined) throw new Error("no jobs");
  await untilListed(last);
  await lobbyOf(RED).terminate("by the test");
  await release();
  for (const job of red) await job.result();
});

it("asks no job that a lobby lists when the ledger is lost, and runs them all", async () => {
  const release = await blocked();
  const red = await submitMany("red", 9);
  const last = red[8];
  if (last === undefined) throw new Error("no jobs");
  await untilListed(last);
  await world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet)).terminate("by the test");
  await submit("blue", "true");
  await world.until("the lobby has reported", (ledger) => outsideOf(ledger, RED) >= 4, 60_000);
  await release();
  for (const job of red) await job.result();
  const { events = [] } = await world.temporal.workflow.getHandle(last.jobId).fetchHistory();
  const signals = (events ?? []).flatMap(
    (event) => event.workflowExecutionSignaledEventAttributes?.signalName ?? [],
  );
  expect(signals.filter((name) => name === "assert")).toEqual([]);
});
