/**
 * @file Level 2, the frontend is open: an attacker tells the fleet and another's job what only Orbweaver's own processes say, with no proof, a forged or a
 * copied one. Nothing of it takes effect, all of it is counted, and keys change under load.
 *
 * The attacker has a plain client, has read everything that histories hold, and has a key of their own.
 */

import { Client, WithStartWorkflowOperation, type WorkflowHandle } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { jobChanges } from "../../client/job-changes.ts";
import { jobId as toJobId, leaseId as toLeaseId, token } from "../../domain/values/ids.ts";
import {
  disbelievedQuery,
  fencedSignal,
  fleetWorkflowId,
  grantSignal,
  inboxSignal,
  JOB_TASK_QUEUE,
  killSignal,
  orderQuery,
  pendingSignal,
  preemptSignal,
  PROOF_HEADER,
  wordUpdate,
  WORD_ROLES,
} from "../../protocol/messages.ts";
import type { Lease } from "../../domain/lease/lease.ts";
import { strangers } from "./attacker.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";
import { removeFolder } from "../support/remove-folder.ts";

let dir = "";
let world: World;
let plain: Client;
let forger: Client;
beforeAll(async () => {
  dir = mkdtempSync(join(tmpdir(), "orbweaver-words-"));
  // Its keys change: other worlds have theirs.
  process.env["ORBWEAVER_KEYS"] = join(dir, "keys");
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
  ({ plain, forger } = strangers(world, dir));
});
afterAll(async () => {
  await world.stop();
  removeFolder(dir);
});

interface Victim {
  readonly jobId: string;
  readonly lease: Lease;
}

async function runningVictim(): Promise<Victim> {
  const { jobId } = await world.orbweaver.submit({
    name: "victim",
    gang: { gpus: 1 },
    run: { command: ["sleep", "600"] },
  });
  const job = world.orbweaver.job(jobId);
  await expect.poll(async () => (await job.view()).state).toBe("running");
  const lease = [...(await world.ledger()).leases.values()].find((each) => each.jobId === jobId);
  if (lease === undefined) throw new Error("the victim has no lease");
  return { jobId, lease };
}

const fleetOf = (client: Client): WorkflowHandle =>
  client.workflow.getHandle(fleetWorkflowId(world.fleet));

/** What would end the job's lease, or free its host, or bring a false host. */
const falseEntries = ({ lease }: Victim): readonly object[] => [
  { kind: "end", jobId: lease.jobId, runId: lease.runId, seq: lease.seq, unconfirmedHosts: [] },
  { kind: "vacated", lease: lease.id, hosts: lease.gpus.map(({ host }) => host) },
  { kind: "silence", hosts: lease.gpus.map(({ host }) => host), epoch: "e" },
];

/** How many words of a sender the fleet did not believe. */
async function disbelieved(sender: string): Promise<number> {
  const { deadLetters } = await world.ledger();
  const own = deadLetters.filter((each) => each.code === "EntryUnproven" && each.sender === sender);
  return own.reduce((sum, { times = 1 }) => sum + times, 0);
}

const isHeld = async ({ lease }: Victim): Promise<boolean> =>
  (await world.ledger()).leases.get(lease.id)?.eviction === undefined &&
  (await world.ledger()).leases.has(lease.id);

it("entries of an attacker are dead letters with a count, unsigned or signed with a key of their own", async () => {
  const victim = await runningVictim();
  for (const entry of falseEntries(victim)) {
    await fleetOf(plain).signal(inboxSignal, [entry]);
    await fleetOf(forger).signal(inboxSignal, [entry]);
  }
  await expect.poll(() => disbelieved("mallory")).toBe(3);
  await expect.poll(() => disbelieved("forger")).toBe(3);
  expect(await isHeld(victim)).toBe(true);
  expect((await world.orbweaver.job(victim.jobId).view()).state).toBe("running");
  await world.orbweaver.job(victim.jobId).cancel();
});

it("a job does not believe orders, grants and losses of an attacker, by signal or by update", async () => {
  const victim = await runningVictim();
  const { jobId, lease } = victim;
  const job = world.orbweaver.job(jobId);
  const order = {
    ...{ seq: lease.seq, lease: lease.id, forJob: toJobId("mallory-1") },
    ...{ reason: "mine", graceMs: 1 },
  };
  const loss = { lease: lease.id, hosts: lease.gpus.map(({ host }) => host) };
  const other = { ...lease, id: toLeaseId(token(9_999_999)), token: token(9_999_999) };
  const grant = { seq: lease.seq, lease: other, agents: [], reason: "mine" };
  for (const client of [plain, forger]) {
    const run = client.workflow.getHandle(jobId);
    await run.signal(preemptSignal, order);
    await run.signal(fencedSignal, loss);
    await run.signal(grantSignal, grant);
    await run.executeUpdate(wordUpdate, { args: [{ signal: "fenced", value: loss }] });
  }
  await expect.poll(async () => (await job.view()).junkSignals).toBe(8);
  const { state, attempts } = await job.view();
  expect([state, attempts.length, attempts[0]?.preempted]).toEqual(["running", 1, undefined]);
  expect(await isHeld(victim)).toBe(true);
  await job.cancel();
});

it("a true word said again, or its proof under another word, changes nothing", async () => {
  const victim = await runningVictim();
  const { events } = await fleetOf(world.temporal).fetchHistory();
  const signals = (events ?? []).flatMap(
    (event) => event.workflowExecutionSignaledEventAttributes ?? [],
  );
  const said = signals.filter((each) => each.header?.fields?.[PROOF_HEADER]).at(-1);
  expect(said).toBeDefined();
  const repeat = (identity: string, payload: Payload | null | undefined): Promise<unknown> =>
    plain.workflowService.signalWorkflowExecution({
      namespace: plain.options.namespace,
      workflowExecution: { workflowId: fleetWorkflowId(world.fleet) },
      signalName: inboxSignal.name,
      identity,
      header: said?.header ?? {},
      input: { payloads: [payload ?? {}] },
    });
  await repeat("parrot", said?.input?.payloads?.[0]);
  await repeat("grafter", defaultPayloadConverter.toPayload([falseEntries(victim)[0]]));
  await expect.poll(() => disbelieved("parrot")).toBe(1);
  await expect.poll(() => disbelieved("grafter")).toBe(1);
  expect(await isHeld(victim)).toBe(true);
  await world.orbweaver.job(victim.jobId).cancel();
});

it("a job that waits is not told by an attacker why, and an array gets no grants of one", async () => {
  const { jobId } = await world.orbweaver.submit(
    { name: "waits", gang: { gpus: 64 }, run: { command: ["true"] } },
    { isQueuedAnyway: true },
  );
  const job = world.orbweaver.job(jobId);
  await expect.poll(async () => (await job.view()).pending?.code).toBe("NoMatchingFlavor");
  const reason = { code: "OnHold", message: "pay mallory", holders: [] };
  await plain.workflow.getHandle(jobId).signal(pendingSignal, { seq: 1, reason } as never);
  await expect.poll(async () => (await job.view()).junkSignals).toBe(1);
  expect((await job.view()).pending?.code).toBe("NoMatchingFlavor");
  await job.cancel();

  const array = await world.orbweaver.submit({
    name: "many",
    array: { count: 2, parallel: 1 },
    gang: { gpus: 1 },
    run: { command: ["sleep", "3"] },
  });
  await plain.workflow.getHandle(array.jobId).signal("grants", [{ seq: 1 }]);
  const many = world.orbweaver.job(array.jobId);
  await expect.poll(async () => (await many.view()).state).toBe("completed");
});

/** Orders to the fleet, each by the name of its update. */
const falseFleetOrders = (host: string): readonly (readonly [name: string, order: object])[] => [
  ["fence", { hosts: [host] }],
  ["drain", { hosts: [host], reason: "mine", isNew: true }],
  ["hold-queue", { queue: { kind: "fleet" }, by: "root" }],
];

it("an order to the fleet that an attacker gives is accepted, and then not believed: a count by sender, and a line in the audit", async () => {
  const victim = await runningVictim();
  const host = victim.lease.gpus[0]?.host ?? "";
  const senders = ["mallory", "forger"] as const;
  const before = await Promise.all(senders.map(disbelieved));
  for (const [name, order] of falseFleetOrders(host)) {
    expect(await fleetOf(plain).executeUpdate(name, { args: [order] })).toBeNull();
    const updateId = `forged-${name}`;
    const id = fleetWorkflowId(world.fleet);
    const handle = forger.workflow.getHandle(id);
    expect(await handle.executeUpdate(name, { updateId, args: [order] })).toBeNull();
    await expect
      .poll(() => handle.query(orderQuery, updateId))
      .toMatchObject({ kind: "refused", code: "NOT_ALLOWED" });
  }
  for (const [at, sender] of senders.entries())
    await expect.poll(() => disbelieved(sender)).toBe((before[at] ?? 0) + 3);
  const { hosts, holds } = await world.ledger();
  const status = [...hosts].find(([id]) => id === host)?.[1];
  expect([status?.isFenced, status?.isDrained, holds]).toEqual([undefined, false, undefined]);
  expect(await isHeld(victim)).toBe(true);
  const { stdout } = await world.cli(["audit", "--json"]);
  const { words } = JSON.parse(stdout) as {
    readonly words: readonly { readonly sender: string; readonly what: string }[];
  };
  expect(words.filter(({ sender }) => sender === "mallory")).toHaveLength(1);
  expect(words.find(({ sender }) => sender === "forger")?.what).toContain("hold-queue");
  await world.orbweaver.job(victim.jobId).cancel();
});

it("a job's submitter and an operator amend, hold and release it; an attacker does not, nor kills it", async () => {
  const victim = await runningVictim();
  const job = world.orbweaver.job(victim.jobId);
  const run = forger.workflow.getHandle(victim.jobId);
  const orders: readonly (readonly [string, object | null])[] = [
    ["suspend", { by: "root" }],
    ["requeue", { by: "root" }],
    ["amend", { by: "root", basis: 0, changes: { priority: 1_000 } }],
    ["move", { by: "root", fleet: "elsewhere" }],
  ];
  for (const [name, order] of orders) {
    expect(await run.executeUpdate(name, { args: [order] })).toBeNull();
    expect(
      await plain.workflow.getHandle(victim.jobId).executeUpdate(name, { args: [order] }),
    ).toBeNull();
  }
  await run.signal(killSignal);
  await expect.poll(async () => (await job.view()).junkSignals).toBe(9);
  const { state, spec, attempts } = await job.view();
  expect([state, spec?.priority, attempts.length]).toEqual(["running", 0, 1]);
  const { stdout } = await world.cli(["audit", "--job", victim.jobId, "--json"]);
  const { words } = JSON.parse(stdout) as {
    readonly words: readonly { readonly sender: string; readonly times: number }[];
  };
  expect(words.map(({ sender, times }) => [sender, times])).toEqual([
    ["mallory", 4],
    ["forger", 5],
  ]);

  expect(await job.amend({ priority: 3 })).toMatchObject({ changes: [{ setting: "priority" }] });
  expect(["held", "stopping"]).toContain(await job.suspend());
  await expect.poll(async () => (await job.view()).state).toBe("held");
  expect(await job.release()).toBe("pending");
  await expect.poll(async () => (await job.view()).state).toBe("running");
  await job.cancel({ isForced: true });
  await expect.poll(async () => (await job.outcome()).kind).toBe("cancelled");
});

it("an order that comes with the start of a job waits until the job knows whose it obeys", async () => {
  const begin = async (client: Client, name: string): Promise<string> => {
    const workflowId = `${name}-${world.fleet}`;
    const file = { name, gang: { gpus: 64 }, run: { command: ["true"] } };
    const start = new WithStartWorkflowOperation("job", {
      ...{ workflowId, taskQueue: JOB_TASK_QUEUE, workflowIdConflictPolicy: "FAIL" },
      args: [file, { fleet: world.fleet }],
    });
    const order = { args: [{ by: "root" }], startWorkflowOperation: start };
    expect(await client.workflow.executeUpdateWithStart("hold", order as never)).toBeNull();
    return workflowId;
  };
  const forged = world.orbweaver.job(await begin(forger, "forged-early"));
  await expect.poll(async () => (await forged.view()).junkSignals).toBe(1);
  expect((await forged.view()).state).toBe("pending");
  const own = world.orbweaver.job(await begin(world.temporal, "held-early"));
  await expect.poll(async () => (await own.view()).state).toBe("held");
  for (const job of [forged, own]) await job.cancel();
});

it("what a role says with the start of a job waits until the job knows whether it needs proof", async () => {
  const begin = async (client: Client, name: string): Promise<string> => {
    const workflowId = `${name}-${world.fleet}`;
    const lease = { id: toLeaseId(token(9_999_998)), token: token(9_999_998), gpus: [] };
    await client.workflow.signalWithStart("job", {
      ...{ workflowId, taskQueue: JOB_TASK_QUEUE },
      args: [{ name, gang: { gpus: 64 }, run: { command: ["true"] } }, { fleet: world.fleet }],
      signal: grantSignal,
      signalArgs: [{ seq: 1, lease, agents: [], reason: "mine" } as never],
    });
    return workflowId;
  };
  const doubted = async (workflowId: string): Promise<unknown> => {
    const words = await world.temporal.workflow.getHandle(workflowId).query(disbelievedQuery);
    return words.map(({ sender, word }) => [sender, word]);
  };
  const jobs: readonly (readonly [Client, string, readonly unknown[]])[] = [
    [plain, "granted-early", [["mallory", "grant"]]],
    [forger, "granted-falsely", [["forger", "grant"]]],
    [world.temporal, "granted-truly", []],
  ];
  for (const [client, name, expected] of jobs) {
    const id = await begin(client, name);
    const job = world.orbweaver.job(id);
    await expect.poll(async () => (await job.view()).pending?.code).toBe("NoMatchingFlavor");
    await expect.poll(() => doubted(id)).toEqual(expected);
    await job.cancel();
  }
});

it("a job that a host refuses has a line about it in its audit: which agent, what, and why", async () => {
  const file = { name: "unsigned", gang: { gpus: 1 }, run: { command: ["true"] } };
  const workflowId = `unsigned-${world.fleet}`;
  await plain.workflow.start("job", {
    ...{ workflowId, taskQueue: JOB_TASK_QUEUE },
    args: [file, { fleet: world.fleet }],
  });
  const job = world.orbweaver.job(workflowId);
  await expect.poll(async () => (await job.outcome()).kind).toBe("failed");
  const history = await jobChanges(world.temporal, toJobId(workflowId));
  const refused = history.filter(({ why }) => why !== undefined);
  expect(refused).toMatchObject([{ act: "run refused" }]);
  expect(refused[0]?.why).toContain("it is not signed");
  expect(history[0]).not.toHaveProperty("signer");
});

it("an array's tasks are not cancelled for an attacker, and are for who submitted it", async () => {
  const { jobId } = await world.orbweaver.submit({
    name: "many",
    array: { count: 3, parallel: 1 },
    gang: { gpus: 1 },
    run: { command: ["sleep", "600"] },
  });
  const array = world.orbweaver.job(jobId);
  await expect.poll(async () => (await array.view()).array?.counts.running).toBeGreaterThan(0);
  const order = { tasks: "0-2" };
  await plain.workflow.getHandle(jobId).executeUpdate("cancel-tasks", { args: [order] });
  await expect.poll(async () => (await array.view()).junkSignals).toBe(1);
  expect((await array.view()).array?.counts.cancelled ?? 0).toBe(0);
  const { done, stopping } = await array.cancelTasks("2");
  expect(done + stopping).toBe(1);
  await array.cancel({ isForced: true });
  await expect.poll(async () => (await array.outcome()).kind).toBe("cancelled");
});

it("an order that is given with a true proof works once: who repeats it is not believed", async () => {
  const { jobId } = await world.orbweaver.submit(
    { name: "waits", gang: { gpus: 64 }, run: { command: ["true"] } },
    { isQueuedAnyway: true },
  );
  const job = world.orbweaver.job(jobId);
  await expect.poll(async () => (await job.view()).state).toBe("pending");
  await job.hold();
  await job.release();
  const { events } = await world.temporal.workflow.getHandle(jobId).fetchHistory();
  const requests = (events ?? []).flatMap(
    (event) => event.workflowExecutionUpdateAcceptedEventAttributes?.acceptedRequest?.input ?? [],
  );
  const held = requests.find(({ name }) => name === "hold");
  const [order, proof] = (held?.args?.payloads ?? []).map((each) =>
    defaultPayloadConverter.fromPayload(each),
  );
  expect(typeof proof).toBe("string");
  const run = plain.workflow.getHandle(jobId);
  await run.executeUpdate("hold", { args: [order, proof] });
  await run.executeUpdate("suspend", { args: [order, proof] });
  await expect.poll(async () => (await job.view()).junkSignals).toBe(2);
  expect((await job.view()).state).toBe("pending");
  await job.cancel();
});

it("jobs start and end while the keys of all roles are rotated and the former ones revoked", async () => {
  const wait = (): Promise<{ readonly code: number | null }> =>
    world.cli(["submit", "--wait", "--gpus", "1", "--", "true"]);
  const jobs: Promise<{ readonly code: number | null }>[] = [];
  for (let round = 0; round < 2; round += 1) {
    jobs.push(wait(), wait());
    for (const role of WORD_ROLES) {
      const rotated = await world.cli(["keys", role, "--rotate", "--json"]);
      const { keys } = JSON.parse(rotated.stdout) as { readonly keys: readonly string[] };
      expect(keys).toHaveLength(2);
    }
  }
  for (const { code } of await Promise.all(jobs)) expect(code).toBe(0);
  for (const role of WORD_ROLES) {
    const { stdout } = await world.cli(["keys", role, "--json"]);
    const { keys } = JSON.parse(stdout) as { readonly keys: readonly string[] };
    await world.cli(["keys", role, "--revoke", keys[1] ?? ""]);
  }
  expect((await wait()).code).toBe(0);
  const { deadLetters } = await world.until("nothing is held", ({ leases }) => leases.size === 0);
  const senders = deadLetters.filter(({ code }) => code === "EntryUnproven");
  const known = new Set(["mallory", "forger", "parrot", "grafter"]);
  expect(senders.filter(({ sender }) => !known.has(sender ?? ""))).toEqual([]);
});
