/** @file False words to a live fleet: what cannot be true changes nothing, other jobs run on, and what passed is found and repaired. */

import { afterAll, beforeAll, expect, it } from "vitest";
import type { DisbelievedSender } from "../../client/disbelieved.ts";
import { fleetWorkflowId, inboxSignal } from "../../protocol/messages.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { serverAddress } from "../support/server-address.ts";
import { startWorld, type World } from "../support/world.ts";

const cluster = (name: string): string => `
  - name: ${name}
    site: here
    jurisdiction: EU
    simulated: true
    silence: 15s
    fence: 10m
    hosts:
      - { name: h1, gpus: 2, type: H100 }
`;

let world: World;
beforeAll(async () => {
  const fleetYaml = `name: doubted\nclusters:${cluster("east")}${cluster("west")}`;
  world = await startWorld({ address: serverAddress(), fleetYaml });
});
afterAll(async () => {
  await world.stop();
});

const say = async (...entries: readonly unknown[]): Promise<void> => {
  await world.temporal.workflow
    .getHandle(fleetWorkflowId(world.fleet))
    .signal(inboxSignal, entries);
};
const job = (name: string, host: string, command: readonly string[]): object => ({
  name,
  gang: { gpus: 2 },
  constraints: { hosts: [host] },
  run: { launch: "per-host", command },
});
const submit = async (name: string, host: string, command: readonly string[]): Promise<string> =>
  (await world.orbweaver.submit(job(name, host, command) as never)).jobId;
const holds = (ledger: Ledger, id: string): boolean =>
  [...ledger.leases.values()].some(({ jobId, state }) => jobId === id && state === "held");
const agentOf = (ledger: Ledger, host: string): object | undefined =>
  [...ledger.hosts].find(([id]) => id === host)?.[1].agent;

interface Repair {
  readonly doubts: readonly {
    readonly kind: string;
    readonly lease?: string;
    readonly job?: string;
    readonly hosts?: readonly { readonly agent: string }[];
  }[];
  readonly repair?: { readonly freed: readonly string[]; readonly left: readonly string[] };
}
const repair = async (...words: readonly string[]): Promise<Repair> => {
  const { code, stdout, stderr } = await world.cli(["fleet", "repair", "--json", ...words]);
  expect([code, stderr.includes("error")]).toEqual([0, false]);
  return JSON.parse(stdout) as Repair;
};

it("tokens that jump, leases that were never granted and hosts of nobody change nothing; a terminated job's GPUs are free again", async () => {
  const victim = await submit("victim", "east/h1", ["sleep", "600"]);
  const before = await world.until("the victim runs", (ledger) => holds(ledger, victim));
  const lease = [...before.leases.values()].find(({ jobId }) => jobId === victim);
  const agent = agentOf(before, "west/h1");
  const far = 2 ** 52;
  const fact = { ...lease, id: `lease-${far}`, token: far, gpus: [{ host: "west/h1", mask: 3 }] };
  const hello = { kind: "agent-registered", hosts: ["west/h1"], agent, running: [], terms: {} };
  await say(
    { ...hello, highestToken: far },
    { ...hello, highestToken: before.nextToken },
    {
      ...hello,
      running: [{ host: "west/h1", lease: `lease-${far}`, token: far, fact }],
      highestToken: 0,
    },
    { ...hello, agent: { ...agent, epoch: "zzzz" }, highestToken: 0 },
    { ...hello, hosts: ["nowhere/h1"], highestToken: 0 },
    { kind: "assert", lease: fact },
    { kind: "assert", lease: { ...fact, id: "lease-77", token: 77 } },
    { kind: "vacated", lease: "lease-9007199254740991", hosts: ["east/h1"] },
    { kind: "vacated", lease: "lease-9999999999999998", hosts: ["east/h1"] },
    {
      kind: "end",
      jobId: victim,
      runId: lease?.runId,
      seq: 0,
      unconfirmedHosts: [],
      lease: `lease-${far}`,
    },
    { kind: "silence", hosts: ["nowhere/h1"], epoch: "zzzz" },
    { kind: "checkpointed", marks: [{ lease: lease?.id, atMs: 1e300 }] },
  );
  const after = await world.until(
    "the words are refused",
    ({ deadLetters }) => deadLetters.length > 0,
  );
  expect(after.nextToken).toBe(before.nextToken);
  expect([...after.leases.keys()]).toEqual([...before.leases.keys()]);
  expect(agentOf(after, "west/h1")).toEqual(agent);
  const codes = new Set(after.deadLetters.map(({ code }) => code));
  expect([...codes].sort()).toEqual(["EntryMalformed", "HostUnknown", "TokenUnknown"]);
  const audited = JSON.parse((await world.cli(["audit", "--json"])).stdout) as {
    readonly words: readonly DisbelievedSender[];
  };
  expect(new Set(audited.words.map(({ what }) => what))).toEqual(codes);

  const other = await submit("other", "west/h1", ["true"]);
  await world.orbweaver.job(other).result();
  await world.temporal.workflow.getHandle(victim).terminate("by hand");
  await world.until("the victim's GPUs are free", ({ leases }) => leases.size === 0);
  expect((await repair()).doubts).toEqual([]);
});

it("a lease that an open job does not run on is found, and freed when job and host deny it", async () => {
  const live = await submit("live", "east/h1", ["sleep", "600"]);
  const before = await world.until("it runs", (ledger) => holds(ledger, live));
  const lease = [...before.leases.values()].find(({ jobId }) => jobId === live);
  // Token 1 was the victim's, on the other host: a true token, and a false report.
  const fact = { ...lease, id: "lease-1", token: 1, gpus: [{ host: "west/h1", mask: 3 }] };
  const running = [{ host: "west/h1", lease: "lease-1", token: 1, fact }];
  const agent = agentOf(before, "west/h1");
  await say({
    kind: "agent-registered",
    hosts: ["west/h1"],
    agent,
    running,
    highestToken: 0,
    terms: {},
  });
  await world.until("the false lease is there", ({ leases }) => leases.size === 2);

  const listed = await repair();
  expect(listed.doubts).toMatchObject([
    { kind: "lease", lease: "lease-1", job: "denies", hosts: [{ agent: "answers" }] },
  ]);
  expect((await world.ledger()).leases.size).toBe(2);
  const { repair: note } = await repair("--yes");
  expect(note).toMatchObject({ freed: ["lease-1"], left: [] });
  const after = await world.ledger();
  expect([...after.leases.values()].map(({ jobId, state }) => [jobId, state])).toEqual([
    [live, "held"],
  ]);
  expect(after.repairs?.at(-1)?.freed).toEqual(["lease-1"]);
  await world.orbweaver.job(live).cancel();
});

it("a host that does not answer denies nothing: the lease stays until the host is fenced", async () => {
  const lost = await submit("lost", "west/h1", ["sleep", "600"]);
  await world.until("it runs", (ledger) => holds(ledger, lost));
  await world.kill("agent-west");
  await world.temporal.workflow.getHandle(lost).terminate("by hand");
  await world.until("its agent is silent", ({ hosts, leases }) => {
    const status = [...hosts].find(([id]) => id === "west/h1")?.[1];
    const isVacating = [...leases.values()].every(({ state }) => state === "vacating");
    return status?.silentSinceMs !== undefined && leases.size === 1 && isVacating;
  });
  const { repair: note } = await repair("--yes");
  expect([note?.freed.length, note?.left.length]).toEqual([0, 1]);
  expect((await world.ledger()).leases.size).toBe(1);
  expect((await world.cli(["fence", "west/h1"])).code).toBe(0);
  await world.until("the GPUs are free", ({ leases }) => leases.size === 0);
});
