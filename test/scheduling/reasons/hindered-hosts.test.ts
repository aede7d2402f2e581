/** @file What a job is told that waits for hosts: how many are silent, fenced, drained or without agent, and which. */
import { expect, test } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import type { LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { ask, fleetShape, hello, host, inbox } from "../builders.ts";

const HOSTS = ["c0/h0", "c0/h1", "c0/h2", "c0/h3", "c0/h4"];
const SHAPE = fleetShape([{ hosts: HOSTS.map(() => ({})) }]);

const silence = (...hosts: readonly string[]): LedgerEvent => ({
  kind: "inbox",
  entries: hosts.map((name) => ({ kind: "silence", hosts: [host(name)], epoch: name })),
  nowMs: 0,
});
const fence = (...hosts: readonly string[]): LedgerEvent => ({
  kind: "fence",
  hosts: hosts.map(host),
  nowMs: 0,
});
const drain = (...hosts: readonly string[]): LedgerEvent => ({
  kind: "drain",
  hosts: hosts.map(host),
  reason: "test",
  nowMs: 0,
});

test.each<{
  name: string;
  agents: readonly string[];
  events: readonly LedgerEvent[];
  want: string;
  numbers: Readonly<Record<string, number>>;
}>([
  {
    name: "silent hosts",
    agents: HOSTS,
    events: [silence("c0/h3")],
    want: ": 1 silent (c0/h3). Wait for the silent ones.",
    numbers: { silentHosts: 1 },
  },
  {
    name: "hosts of every kind, each under what has to be dealt with first",
    agents: HOSTS.slice(0, 4),
    events: [drain("c0/h0", "c0/h1", "c0/h2"), silence("c0/h1"), fence("c0/h2")],
    want: ": 1 silent (c0/h1), 1 fenced (c0/h2), 1 drained (c0/h0), 1 without agent (c0/h4). Wait for the silent ones, or start the agents of the fenced ones, or undrain hosts, or start agents.",
    numbers: { silentHosts: 1, fencedHosts: 1, drainedHosts: 1, agentlessHosts: 1 },
  },
  {
    name: "no more than three of a kind",
    agents: [],
    events: [],
    want: ": 5 without agent (c0/h0, c0/h1, c0/h2, …). Start agents.",
    numbers: { agentlessHosts: 5 },
  },
])("names $name", ({ agents, events, want, numbers }) => {
  const hellos = agents.map((name) => hello([name], { epoch: name }));
  const asked = inbox(emptyLedger(SHAPE), [...hellos, ask({ job: "a", gpus: 40 })]).ledger;
  const ledger = events.reduce((before, event) => apply(before, event).ledger, asked);
  const [note] = decide(ledger, 0).pending;
  expect(note).toMatchObject({
    request: { jobId: jobId("a") },
    reason: { code: "WaitingForHosts", numbers: { needGpus: 40, ...numbers } },
  });
  expect(note?.reason.message).toMatch(/^a needs 40 GPUs; .* all hosts 40: /);
  expect(note?.reason.message.endsWith(want)).toBe(true);
});

test("hosts that the job avoids are not counted", () => {
  const asked = inbox(emptyLedger(SHAPE), [
    ask({ job: "a", gpus: 8, avoidHosts: HOSTS.slice(1).map(host) }),
  ]).ledger;
  expect(decide(asked, 0).pending[0]?.reason).toMatchObject({
    code: "WaitingForHosts",
    numbers: { agentlessHosts: 1 },
  });
});
