/** @file Jobs for which a fleet has no place: they wait outside, are called in fairly, and survive the end of their lobby and of their fleet. */

import { writeFile } from "node:fs/promises";
import path from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import type { JobHandle } from "../../client/index.ts";
import { fleetWorkflowId, lobbyWorkflowId } from "../../protocol/messages.ts";
import { tenantId, type TenantId } from "../../domain/values/ids.ts";
import { sumOf } from "../../cli/text/lobby-place.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { recordHistories } from "../support/record-histories.ts";
import { serverAddress } from "../support/server-address.ts";
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
    address: serverAddress(),
    fleetYaml: TWO_GPUS,
    places: PLACES,
  });
});
afterAll(async () => {
  await recordHistories(world.temporal, world.fleet);
  await world.stop();
});

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

/** Those of a tenant's jobs that wait outside, at least `count`. Which they are depends on who asked first, not on who was submitted first. */
async function outside(jobs: readonly JobHandle[], count: number): Promise<readonly JobHandle[]> {
  const listed = new Set<JobHandle>();
  const look = async (): Promise<number> => {
    for (const job of jobs) if ((await job.explain()).lobby !== undefined) listed.add(job);
    return listed.size;
  };
  await expect.poll(look, { interval: 200 }).toBeGreaterThanOrEqual(count);
  return [...listed];
}

it("lists what does not fit, says so, and calls in both tenants' jobs in turn", async () => {
  const release = await blocked();
  const red = await submitMany("red", 10);
  const blue = await submitMany("blue", 6);
  await world.until(
    "jobs of both tenants wait outside",
    (ledger) => outsideOf(ledger, RED) >= 5 && outsideOf(ledger, BLUE) >= 4,
  );
  const [waiting, held, gone] = await outside(red, 3);
  if (waiting === undefined || held === undefined || gone === undefined) throw new Error("no jobs");
  const { view, lobby } = await waiting.explain();
  expect(view.pending).toMatchObject({ code: "QueueFull" });
  expect(lobby?.place).toBeGreaterThanOrEqual(1);
  expect(lobby?.place).toBeLessThanOrEqual(lobby?.waiting ?? 0);
  const explained = await world.cli(["explain", waiting.jobId]);
  expect(explained.stdout).toMatch(/waits: QueueFull/);
  expect(explained.stdout).toMatch(/training jobs of red outside/);
  expect((await world.cli(["queue"])).stdout).toMatch(/more jobs wait outside/);
  await gone.cancel();
  expect((await gone.outcome()).kind).toBe("cancelled");
  await held.hold();
  await release();
  for (const job of [...red, ...blue]) if (job !== held && job !== gone) await job.result();
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
  await outside(red, 1);
  await lobbyOf(RED).terminate("by the test");
  await release();
  for (const job of red) await job.result();
});

it("asks no job that a lobby lists when the ledger is lost, and runs them all", async () => {
  const release = await blocked();
  const red = await submitMany("red", 9);
  const [waiting] = await outside(red, 1);
  if (waiting === undefined) throw new Error("no jobs");
  await world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet)).terminate("by the test");
  await submit("blue", "true");
  await world.until("the lobby has reported", (ledger) => outsideOf(ledger, RED) >= 4);
  await release();
  for (const job of red) await job.result();
  const { events = [] } = await world.temporal.workflow.getHandle(waiting.jobId).fetchHistory();
  const signals = (events ?? []).flatMap(
    (event) => event.workflowExecutionSignaledEventAttributes?.signalName ?? [],
  );
  expect(signals.filter((name) => name === "assert")).toEqual([]);
});
