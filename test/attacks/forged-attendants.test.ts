/**
 * @file Level 2, the frontend is open: an attacker tells presences, lobbies and learners what only Orbweaver's own processes and the fleet's operators say, with
 * no proof or a forged one. Nothing of it takes effect, all of it is counted and stands in the audit.
 */

import { Client, type WorkflowHandle } from "@temporalio/client";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { tellLobby } from "../../activities/lobby-post.ts";
import { signedFleets } from "../../activities/signed-fleets.ts";
import { jobId, runId, tenantId } from "../../domain/values/ids.ts";
import {
  announceSignal,
  arrivedSignal,
  ATTENDANTS_MEMO,
  BANDWIDTH_MODEL_RULES,
  BANDWIDTH_MODEL_WORKFLOW,
  bandwidthModelQuery,
  bandwidthModelWorkflowId,
  COLLECTIVE_TUNER_RULES,
  COLLECTIVE_TUNER_WORKFLOW,
  collectiveTunerQuery,
  collectiveTunerWorkflowId,
  deregisterSignal,
  disbelievedQuery,
  fleetMemo,
  fleetWorkflowId,
  JOB_TASK_QUEUE,
  LINK_MONITOR_RULES,
  LINK_MONITOR_WORKFLOW,
  linkMonitorWorkflowId,
  linksQuery,
  LOBBY_WORKFLOW,
  lobbyLeaveSignal,
  lobbyNewsSignal,
  lobbyRowsQuery,
  lobbyWorkflowId,
  measuredSignal,
  PRESENCE_WORKFLOW,
  presenceWorkflowId,
  reportAgainSignal,
  reportRewardsUpdate,
  SIGNED_WORDS,
  WORDS_MEMO,
  type LobbyNews,
} from "../../protocol/messages.ts";
import { strangers } from "./attacker.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let dir = "";
let world: World;
/** Signs nothing, and signs all roles' words with keys that nobody believes. */
let attackers: readonly Client[] = [];
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-attendants-"));
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
  const { plain, forger } = strangers(world, dir);
  attackers = [plain, forger];
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

const handlesOf = (workflowId: string): readonly WorkflowHandle[] =>
  attackers.map((client) => client.workflow.getHandle(workflowId));

/** How many words of each attacker the workflow did not believe. */
async function counts(workflowId: string): Promise<readonly (readonly [string, number])[]> {
  const found = await world.temporal.workflow.getHandle(workflowId).query(disbelievedQuery);
  return found
    .map(({ sender, times }) => [sender, times] as const)
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

const untilCounted = (workflowId: string, times: number): Promise<void> =>
  expect
    .poll(() => counts(workflowId))
    .toEqual([
      ["forger", times],
      ["mallory", times],
    ]);

it("a presence hears of no false agent, no false farewell and no false order to report", async () => {
  const [cluster] = (await world.ledger()).shape.clusters;
  const workflowId = presenceWorkflowId(world.fleet, cluster?.id ?? "");
  const before = [...(await world.ledger()).hosts].map(([host, { agent }]) => ({ host, agent }));
  const { agent } = before[0] ?? {};
  const hosts = before.map(({ host }) => host);
  const theirs = {
    agent: { ...agent, epoch: "zzzz", runQueue: "mallory", orderQueue: "mallory" },
    hosts,
  };
  for (const presence of handlesOf(workflowId)) {
    await presence.signal(announceSignal, theirs as never);
    await presence.signal(deregisterSignal, { epoch: agent?.epoch ?? "" });
    await presence.signal(reportAgainSignal);
  }
  await untilCounted(workflowId, 3);
  const { jobId } = await world.orbweaver.submit({
    name: "still-here",
    gang: { gpus: 1 },
    run: { command: ["true"] },
  });
  expect((await world.orbweaver.job(jobId).outcome()).kind).toBe("completed");
  const after = [...(await world.ledger()).hosts].map(([host, status]) => ({
    host,
    agent: status.agent,
  }));
  expect(after).toEqual(before);
});

it("a presence that an attacker starts asks its fleet first: their agent is not believed", async () => {
  const [cluster] = (await world.ledger()).shape.clusters;
  const workflowId = presenceWorkflowId(world.fleet, cluster?.id ?? "");
  const agents = [...(await world.ledger()).hosts].map(([, { agent }]) => agent);
  const [mallory] = attackers;
  await mallory?.workflow.getHandle(workflowId).terminate("mine");
  const hosts = [...(await world.ledger()).hosts.keys()];
  await mallory?.workflow.signalWithStart(PRESENCE_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet: world.fleet, cluster: cluster?.id ?? "" }],
    signal: announceSignal,
    signalArgs: [
      { agent: { ...agents[0], runQueue: "mallory", orderQueue: "mallory" }, hosts } as never,
    ],
  });
  await expect.poll(() => counts(workflowId)).toEqual([["mallory", 1]]);
  const after = [...(await world.ledger()).hosts].map(([, { agent }]) => agent);
  expect(after).toEqual(agents);
});

it("a lobby hears neither rows nor leaves of an attacker, and keeps those of its fleet", async () => {
  const tenant = tenantId("crowd");
  // Of a fleet that gives no credits.
  const fleet = `${world.fleet}-full`;
  const workflowId = lobbyWorkflowId(fleet, tenant);
  const row = {
    jobId: "outside-1",
    runId: "r1",
    seq: 1,
    class: "training",
    priority: 0,
    submittedAtMs: 1,
    gpus: 1,
    round: 0,
  };
  const news = { fleet, tenant, rows: [row], credits: [] };
  // Signed by the fleet's key, as its worker opens a lobby.
  await world.temporal.workflow.signalWithStart(LOBBY_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet, tenant, isProofAsked: true }],
    signal: lobbyNewsSignal,
    signalArgs: [news as never],
    memo: fleetMemo(fleet),
  });
  const rows = async (): Promise<readonly string[]> =>
    (await world.temporal.workflow.getHandle(workflowId).query(lobbyRowsQuery)).jobs;
  await expect.poll(rows).toEqual(["outside-1"]);
  for (const lobby of handlesOf(workflowId)) {
    await lobby.signal(lobbyNewsSignal, { ...news, rows: [{ ...row, jobId: "false" }] } as never);
    await lobby.signal(lobbyLeaveSignal, {
      ...{ jobId: "outside-1", runId: "r1", seq: 1, class: "training" },
    } as never);
    await lobby.signal(reportAgainSignal);
  }
  await untilCounted(workflowId, 3);
  expect(await rows()).toEqual(["outside-1"]);
  await world.temporal.workflow.getHandle(workflowId).terminate("over");
});

it("a lobby that is started again is not told what nobody had proven to the run before", async () => {
  const tenant = tenantId("robbed");
  // Of a fleet that asks for proof and gives no credits.
  const fleet = `${world.fleet}-asks`;
  const asking = await world.temporal.workflow.start("absent", {
    workflowId: fleetWorkflowId(fleet),
    taskQueue: "nobody",
    memo: { [WORDS_MEMO]: SIGNED_WORDS, [ATTENDANTS_MEMO]: SIGNED_WORDS },
  });
  const workflowId = lobbyWorkflowId(fleet, tenant);
  const rowOf = (job: string) => ({
    ...{ jobId: jobId(job), runId: runId("r1"), seq: 1, class: "training", priority: 0 },
    ...{ submittedAtMs: 1, gpus: 1, round: 0 },
  });
  const newsOf = (...jobs: readonly string[]) =>
    ({ fleet, tenant, rows: jobs.map(rowOf), credits: [] }) as unknown as LobbyNews;
  const lobby = world.temporal.workflow.getHandle(workflowId);
  const rows = async (): Promise<readonly string[]> =>
    [...(await lobby.query(lobbyRowsQuery)).jobs].sort();
  const byFleet = { client: world.temporal, askedBy: signedFleets(world.temporal) };
  await tellLobby(byFleet, newsOf("outside-1", "outside-2", "outside-3"));
  const leaveOf = (job: string) => ({ jobId: job, runId: "r1", seq: 1, class: "training" });
  await lobby.signal(lobbyLeaveSignal, leaveOf("outside-3") as never);
  const left = ["outside-1", "outside-2"];
  await expect.poll(rows).toEqual(left);
  for (const attacker of handlesOf(workflowId)) {
    await attacker.signal(lobbyNewsSignal, newsOf("false"));
    await attacker.signal(lobbyLeaveSignal, leaveOf("outside-1") as never);
  }
  await untilCounted(workflowId, 2);
  await attackers[0]?.workflow.getHandle(workflowId).terminate("mine");

  await tellLobby(byFleet, newsOf("outside-4"));
  await expect.poll(rows).toEqual([...left, "outside-4"]);
  // What was told again has been heard when this has.
  await lobby.signal(lobbyLeaveSignal, leaveOf("outside-4") as never);
  await expect.poll(rows).toEqual(left);
  expect(await counts(workflowId)).toEqual([]);
  for (const open of [lobby, asking]) await open.terminate("over");
});

const outside = (fleet: string, tenant: string): LobbyNews => {
  const row = {
    ...{ jobId: jobId("outside"), runId: runId("r1"), seq: 1, class: "training", priority: 0 },
    ...{ submittedAtMs: 1, gpus: 1, round: 0 },
  };
  return { fleet, tenant, rows: [row], credits: [] } as unknown as LobbyNews;
};

it.each<readonly [string, string, string, object]>([
  ["of another type", "mine", JOB_TASK_QUEUE, { carried: "mine" }],
  ["on a task queue of theirs", LOBBY_WORKFLOW, "mine", { carried: "mine" }],
  ["for a fleet of theirs", LOBBY_WORKFLOW, JOB_TASK_QUEUE, { fleet: "mine" }],
])("a workflow %s under a lobby's id keeps no news from the lobby", async (what, ...theirs) => {
  const [type, taskQueue, input] = theirs;
  const tenant = tenantId("squatted");
  const fleet = `${world.fleet}-${what.replaceAll(" ", "-")}`;
  const workflowId = lobbyWorkflowId(fleet, tenant);
  const options = { workflowId, taskQueue, args: [{ fleet, tenant, ...input }] };
  await attackers[0]?.workflow.start(type, options);
  const news = outside(fleet, tenant);
  const byFleet = { client: world.temporal, askedBy: signedFleets(world.temporal) };
  // What a fleet of a former release has told the false one is told again.
  await world.temporal.workflow.getHandle(workflowId).signal(lobbyNewsSignal, news);
  // Deliveries overlap.
  await Promise.all([1, 2, 3].map(() => tellLobby(byFleet, { ...news, rows: [] })));
  const lobby = world.temporal.workflow.getHandle(workflowId);
  await expect.poll(async () => (await lobby.query(lobbyRowsQuery)).jobs).toEqual(["outside"]);
  await lobby.terminate("over");
});

it.each([
  ["what it has handed on", { carried: { queues: 1 } }],
  ["the names of former runs", { former: [1] }],
  ["a list of former runs", { former: 1 }],
])("a lobby that was begun with junk for %s is opened anew", async (_, junk) => {
  const tenant = tenantId("junk");
  const fleet = `${world.fleet}-${JSON.stringify(junk).replaceAll(/\W/g, "")}`;
  const workflowId = lobbyWorkflowId(fleet, tenant);
  const options = { workflowId, taskQueue: JOB_TASK_QUEUE, args: [{ fleet, tenant, ...junk }] };
  await attackers[0]?.workflow.start(LOBBY_WORKFLOW, options);
  const lobby = world.temporal.workflow.getHandle(workflowId);
  await expect.poll(async () => (await lobby.describe()).status.name).toBe("FAILED");
  const byFleet = { client: world.temporal, askedBy: signedFleets(world.temporal) };
  await tellLobby(byFleet, outside(fleet, tenant));
  await expect.poll(async () => (await lobby.query(lobbyRowsQuery)).jobs).toEqual(["outside"]);
  await lobby.terminate("over");
});

it("a bandwidth model learns nothing from an attacker, and neither trains nor rolls back for one", async () => {
  const cluster = (await world.ledger()).shape.clusters[0]?.id ?? "";
  const workflowId = bandwidthModelWorkflowId(world.fleet, cluster);
  const [a, b] = [...(await world.ledger()).hosts.keys()];
  const note = (run: string) => ({
    ...{ jobId: "measured-table", runId: run, attempt: 0, window: 0, gbs: 40, atMs: 1 },
    gpus: [a, b].map((host) => ({ host, mask: 1 })),
  });
  await world.temporal.workflow.signalWithStart(BANDWIDTH_MODEL_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet: world.fleet, cluster, rules: BANDWIDTH_MODEL_RULES }],
    signal: measuredSignal,
    signalArgs: [[note("true")] as never],
  });
  const samples = async (): Promise<number> =>
    (await world.temporal.workflow.getHandle(workflowId).query(bandwidthModelQuery)).samples;
  await expect.poll(samples).toBe(1);
  for (const model of handlesOf(workflowId)) {
    await model.signal(measuredSignal, [note("false-1"), note("false-2")] as never);
    for (const name of ["train", "rollback"])
      await expect(model.executeUpdate(name, { args: [{}] })).rejects.toMatchObject({
        cause: { type: "NOT_ALLOWED" },
      });
  }
  await untilCounted(workflowId, 3);
  expect(await samples()).toBe(1);
});

it("a link monitor and a tuner of collectives obey no attacker", async () => {
  const links = linkMonitorWorkflowId(world.fleet);
  await world.temporal.workflow.start(LINK_MONITOR_WORKFLOW, {
    workflowId: links,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet: world.fleet, rules: LINK_MONITOR_RULES }],
  });
  for (const monitor of handlesOf(links)) {
    await monitor.signal(arrivedSignal);
    await expect(monitor.executeUpdate("probe", { args: [{}] })).rejects.toMatchObject({
      cause: { type: "NOT_ALLOWED" },
    });
  }
  await untilCounted(links, 2);
  expect(await world.temporal.workflow.getHandle(links).query(linksQuery)).toMatchObject({
    links: [],
  });

  const cluster = (await world.ledger()).shape.clusters[0]?.id ?? "";
  const topology = {
    cluster,
    name: "2x1-H100",
    nodes: 2,
    ranks: 2,
    hasNvlink: false,
    hasNvlinkSharp: false,
  };
  const tuner = collectiveTunerWorkflowId(world.fleet, topology);
  await world.temporal.workflow.start(COLLECTIVE_TUNER_WORKFLOW, {
    workflowId: tuner,
    taskQueue: JOB_TASK_QUEUE,
    args: [{ fleet: world.fleet, topology, rules: COLLECTIVE_TUNER_RULES } as never],
  });
  const reward = {
    ...{ step: 1, version: 1, minBytes: 1, maxBytes: 2, calls: 1, micros: 1 },
    ...{ arm: "ring/simple", collective: "allreduce" },
  };
  for (const each of handlesOf(tuner)) {
    const report = { hasOverlap: false, run: "r", rewards: [reward] };
    for (const [name, value] of [
      [reportRewardsUpdate.name, report],
      ["reset", null],
    ] as const)
      await expect(each.executeUpdate(name, { args: [value] })).rejects.toMatchObject({
        cause: { type: "NOT_ALLOWED" },
      });
  }
  await untilCounted(tuner, 2);
  expect(await world.temporal.workflow.getHandle(tuner).query(collectiveTunerQuery)).toMatchObject({
    heard: 0,
    unfit: 0,
  });

  const { stdout } = await world.cli(["audit", "--json"]);
  const { words } = JSON.parse(stdout) as {
    readonly words: readonly { readonly sender: string; readonly to?: string }[];
  };
  const believedNot = (sender: string): readonly (string | undefined)[] =>
    words.filter((word) => word.sender === sender).map(({ to }) => to);
  for (const sender of ["mallory", "forger"])
    expect(believedNot(sender)).toEqual(expect.arrayContaining([links, tuner]));
});
