/**
 * @file Words of strange form to a running fleet, past the client library: numbers that are none, keys that objects have by birth, deep and huge
 * values, ids and tenants without an end, words for other fleets. Each is refused, or counts for what it is, and other jobs run on.
 */

import { afterAll, beforeAll, expect, it } from "vitest";
import { randomUUID } from "node:crypto";
import { recover } from "../../activities/audit.ts";
import { clusterId } from "../../domain/values/ids.ts";
import {
  ARRAY_MEMO,
  fleetWorkflowId,
  inboxSignal,
  JOB_TASK_QUEUE,
  JOB_WORKFLOW,
  LOBBY_WORKFLOW,
  WAITS_MEMO,
} from "../../protocol/messages.ts";
import { PROOF_MEMO } from "../../protocol/signed-job.ts";
import { PLANNED_DRAIN_MEMO, TIMED_DRAIN_WORKFLOW } from "../../protocol/timed-drain.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

let count = 0;
const start = (file: unknown) =>
  world.temporal.workflow.start(JOB_WORKFLOW, {
    workflowId: `${world.fleet}-strange-${String((count += 1))}`,
    taskQueue: JOB_TASK_QUEUE,
    args: [file, { fleet: world.fleet }],
  });

/** Another tenant's job of one GPU runs to its end. */
async function bystanderEnds(): Promise<void> {
  const { jobId } = await world.orbweaver.submit({
    name: "bystander",
    tenant: "bystander",
    gang: { gpus: 1 },
    run: { command: ["true"] },
  });
  expect(await world.temporal.workflow.getHandle(jobId).result()).toMatchObject({ attempts: 1 });
}

const payload = (encoding: string, text: string) => ({
  metadata: { encoding: Buffer.from(encoding) },
  data: Buffer.from(text),
});

it("a job whose memo nobody can read is granted GPUs, refused by its host, and over: no lease stays", async () => {
  const { namespace } = world.temporal.options;
  const input = [FILE, { fleet: world.fleet }].map((value) =>
    payload("json/plain", JSON.stringify(value)),
  );
  const memos = [
    payload("no/such-encoding", "{"),
    payload("json/plain", "{"),
    payload("binary/encrypted", "{"),
    payload("binary/zlib", "{"),
  ];
  const started = memos.flatMap((memo, at) =>
    ["strange", PROOF_MEMO].map((entry) => ({
      fields: { [entry]: memo },
      workflowId: `${world.fleet}-memo-${String(at)}-${entry}`,
    })),
  );
  for (const { fields, workflowId } of started)
    await world.temporal.workflowService.startWorkflowExecution({
      ...{ namespace, workflowId, requestId: randomUUID(), workflowType: { name: JOB_WORKFLOW } },
      ...{ taskQueue: { name: JOB_TASK_QUEUE }, input: { payloads: input }, memo: { fields } },
    });
  for (const { workflowId } of started)
    expect(await world.orbweaver.job(workflowId).outcome()).toMatchObject({
      ...{ kind: "failed", failure: { code: "NOT_ALLOWED" } },
    });
  await world.until("no lease is left", ({ leases }) => leases.size === 0);
  await bystanderEnds();
});

it("workflows whose ids and memos nobody can read hide nothing: not from list, audit and fleet show, and not from a fleet that recovers", async () => {
  const { namespace } = world.temporal.options;
  const { jobId } = await world.orbweaver.submit({
    ...{ name: "waits", hold: true },
    ...{ gang: { gpus: 1 }, run: { command: ["true"] } },
  });
  const strange = [JOB_WORKFLOW, LOBBY_WORKFLOW, TIMED_DRAIN_WORKFLOW].flatMap((type) =>
    ["strange", "strange and\nof two lines"].map((name) => ({
      type,
      workflowId: `${type} ${name} ${world.fleet}`,
    })),
  );
  for (const { type, workflowId } of strange)
    await world.temporal.workflowService.startWorkflowExecution({
      ...{ namespace, workflowId, requestId: randomUUID(), workflowType: { name: type } },
      taskQueue: { name: `nobody-${world.fleet}` },
      memo: {
        fields: {
          // A lobby that says whose it is would be asked, and nobody answers for it.
          fleet: payload("json/plain", type === LOBBY_WORKFLOW ? "{" : JSON.stringify(world.fleet)),
          [ARRAY_MEMO]: payload("no/such-encoding", "{"),
          [WAITS_MEMO]: payload("json/plain", "{"),
          [PLANNED_DRAIN_MEMO]: payload("json/plain", '{"host":7}'),
        },
      },
      searchAttributes: {
        indexedFields: {
          OrbweaverFleet: payload("json/plain", JSON.stringify(world.fleet)),
          OrbweaverCluster: payload("json/plain", '["a b"]'),
        },
      },
    });
  const looks = [["list"], ["audit"], ["fleet", "show"]];
  await expect
    .poll(async () => {
      const query = `OrbweaverFleet = "${world.fleet}" AND ExecutionStatus = "Running"`;
      return (await world.temporal.workflow.count(query)).count;
    })
    .toBeGreaterThan(strange.length);
  try {
    for (const words of looks) {
      const { code, stderr, stdout } = await world.cli([...words, "--json"]);
      expect(code, `${words.join(" ")}: ${stderr}`).toBe(0);
      if (words[0] === "list") expect(stdout).toContain(jobId);
    }
    const order = { fleet: world.fleet, clusters: [clusterId("alpha")], isLedgerLost: true };
    const lobbyStore = { loadRows: () => Promise.resolve({ kind: "rows", rows: [] } as never) };
    await recover({ client: world.temporal, lobbyStore } as never, order as never);
  } finally {
    for (const { workflowId } of strange)
      await world.temporal.workflow.getHandle(workflowId).terminate();
  }
  await world.orbweaver.job(jobId).cancel();
});

const deep = (levels: number): unknown => {
  let value: unknown = 1;
  for (let level = 0; level < levels; level += 1) value = [value];
  return value;
};
const FILE = { name: "strange", gang: 1, run: { command: ["true"] } };
const manyLabels = (): object =>
  Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`l${String(at)}`, "x"]));

it.each<[string, () => unknown, string]>([
  ["no file", () => null, "MISCONFIGURED"],
  ["a negative number of GPUs", () => ({ ...FILE, gang: -1 }), "MISCONFIGURED"],
  ["a number of GPUs in words", () => ({ ...FILE, gang: "NaN" }), "MISCONFIGURED"],
  ["more GPUs than numbers count", () => ({ ...FILE, gang: 2 ** 53 }), "MISCONFIGURED"],
  ["a priority of half a point", () => ({ ...FILE, priority: 0.5 }), "MISCONFIGURED"],
  ["a tenant of 60 KB", () => ({ ...FILE, tenant: "t".repeat(60_000) }), "MISCONFIGURED"],
  [
    "a tenant of a mark that turns text round",
    () => ({ ...FILE, tenant: "a\u202Eb" }),
    "MISCONFIGURED",
  ],
  ["100,000 labels", () => ({ ...FILE, labels: manyLabels() }), "REQUEST_TOO_LARGE"],
  ["a file of 900 levels", () => ({ ...FILE, run: deep(900) }), "REQUEST_TOO_LARGE"],
  // More than a workflow reads.
  ["a file of 1,100 levels", () => ({ ...FILE, run: deep(1_100) }), "MISCONFIGURED"],
  ["a lone half of a character", () => ({ ...FILE, name: "\uD800" }), "MISCONFIGURED"],
  [
    "a key that objects have by birth",
    () => JSON.parse('{"__proto__":{"gang":1},"name":"x"}'),
    "MISCONFIGURED",
  ],
  ["an array of too many tasks", () => ({ ...FILE, array: { count: 1e9 } }), "MISCONFIGURED"],
  [
    "a million shapes",
    () => ({ ...FILE, gang: { gpus: 8, shapes: Array(50_000).fill(8) } }),
    "REQUEST_TOO_LARGE",
  ],
])("a job of %s ends at once with its reason, and another's runs", async (_, file, code) => {
  const job = await start(file());
  const outcome = await world.orbweaver.job(job.workflowId).outcome();
  expect(outcome).toMatchObject({ kind: "failed", failure: { code } });
  await bystanderEnds();
});

const request = (more: object): object => ({
  kind: "request",
  request: {
    jobId: "stranger",
    runId: "run-of-stranger",
    seq: 1,
    name: "strange",
    tenant: "attacker",
    class: "training",
    priority: 0,
    gang: { gpus: 1, min: 1, timeoutMs: 0 },
    constraints: { isSameHost: false, isSameFabric: false, gpuTypes: ["GB300"] },
    submittedAtMs: Date.now(),
    requestedAtMs: Date.now(),
    ...more,
  },
});

it("entries of strange values change nothing in the ledger, and the fleet names them among its dead letters", async () => {
  const before = await world.ledger();
  const strange: readonly unknown[] = [
    request({ seq: -1 }),
    request({ seq: 1e300 }),
    request({ seq: "1" }),
    request({ priority: null }),
    request({ submittedAtMs: -1e15 }),
    request({ jobId: "j".repeat(60_000) }),
    request({ tenant: "t".repeat(60_000) }),
    request({ class: "__proto__" }),
    request({ gang: { gpus: 1e9, min: -1, timeoutMs: 0 } }),
    request({ slots: 1e12 }),
    request({ gang: deep(2_000) }),
    { kind: "constructor" },
    { kind: "request", request: JSON.parse('{"__proto__":{"jobId":"x"}}') as unknown },
    {
      kind: "end",
      jobId: "stranger",
      runId: "r",
      seq: Number.MAX_VALUE,
      unconfirmedHosts: ["\u0000"],
    },
    { kind: "lobby-report", tenant: "__proto__", counts: {} },
  ];
  const fleet = world.temporal.workflow.getHandle(fleetWorkflowId(world.fleet));
  for (const entry of strange) await fleet.signal(inboxSignal, [entry]);
  await fleet.signal(inboxSignal, strange);
  await bystanderEnds();
  // The bystander's lease is read a moment after the job has ended.
  const after = await world.until(
    "it names them, and nothing is held",
    ({ deadLetters, leases }) => deadLetters.length > 0 && leases.size === 0,
  );
  expect(after.requests.size).toBe(0);
  expect(after.nextToken).toBeLessThan(before.nextToken + 10);
});

it("an array hears a grant and a call that came before its file was read", async () => {
  const [host = "", agent] =
    [...(await world.ledger()).hosts].map(([id, status]) => [id, status.agent] as const)[0] ?? [];
  const workflowId = `${world.fleet}-early`;
  const lease = {
    id: "lease-999",
    token: 999,
    jobId: workflowId,
    runId: "run-of-another",
    seq: 1,
    class: "training",
    tenant: "default",
    slots: 1,
    gpus: [{ host, mask: 1 }],
    grantedAtMs: Date.now(),
    requestedAtMs: Date.now(),
    state: "held",
  };
  const offers = [{ seq: 1, lease, reason: "fits", agents: [{ host, agent }] }];
  const run = await world.temporal.workflow.signalWithStart(JOB_WORKFLOW, {
    workflowId,
    taskQueue: JOB_TASK_QUEUE,
    args: [
      { ...FILE, constraints: { gpuTypes: ["GB300"] }, array: { count: 1 } },
      { fleet: world.fleet },
    ],
    signal: "grants",
    signalArgs: [offers],
  });
  // It gives a task to the lease that it was offered; the host has never heard of it, and refuses.
  await expect
    .poll(async () =>
      (await run.fetchHistory()).events?.some(
        ({ activityTaskScheduledEventAttributes: scheduled }) =>
          scheduled?.activityType?.name === "run",
      ),
    )
    .toBe(true);
  await world.orbweaver.job(workflowId).cancel();
  await bystanderEnds();
});
