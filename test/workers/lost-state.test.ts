/** @file A host that has lost its tokens takes them from the fleet, whatever the fleet knows of the host. */

import type { Client } from "@temporalio/client";
import { expect, test } from "vitest";
import type { Lease } from "../../domain/lease/lease.ts";
import { hostId, clusterId, jobId, leaseId, token } from "../../domain/values/ids.ts";
import { hostQuery } from "../../protocol/messages.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { drawSettings } from "../../world/draw-settings.ts";
import { healTokens } from "../../workers/lost-state.ts";

const ID = hostId(clusterId("c0"), "h0");
const OTHER = hostId(clusterId("c0"), "h1");

/** A fleet whose next token is 42, with this answer about the host, and these leases. */
const fleetThatSays = (agent: unknown, leases: readonly Lease[] = []): Client => {
  const ledger = packLedger({
    ...emptyLedger(drawSettings(1).shape),
    nextToken: token(42),
    leases: new Map(leases.map((lease) => [lease.id, lease])),
  });
  const query = (definition: unknown) => Promise.resolve(definition === hostQuery ? agent : ledger);
  const client = {
    workflow: { getHandle: () => ({ query }) },
    withAbortSignal: <T>(_signal: AbortSignal, call: () => Promise<T>) => call(),
  };
  return client as unknown as Client; // of which no more is used
};

test.each([
  { what: "of which it knows an agent", agent: { epoch: "1" }, wantNotes: 1 },
  { what: "that was fenced, or is new", agent: null, wantNotes: 0 },
])("a host $what has seen every token of the fleet", async ({ agent, wantNotes }) => {
  const { healed, notes } = await healedBy(fleetThatSays(agent));
  expect(healed).toEqual([[41, 41]]);
  expect(notes).toHaveLength(wantNotes);
});

/** It spans two hosts, and ends. */
const vacatingOn = (vacatingHosts: Lease["vacatingHosts"] & {}): Lease => ({
  id: leaseId(token(12)),
  token: token(12),
  jobId: jobId("spans"),
  runId: "00000000-0000-4000-8000-000000000001" as Lease["runId"],
  seq: 1,
  class: "training",
  tenant: "default" as Lease["tenant"],
  gpus: [ID, OTHER].map((host) => ({ host, mask: 0b1 as Lease["gpus"][number]["mask"] })),
  grantedAtMs: 1,
  requestedAtMs: 1,
  state: "vacating",
  vacatingHosts,
});

/** A lease that came after it on the same GPUs had a higher token, and has ended. */
test.each([
  { what: "has not confirmed has seen its token", hosts: [ID], want: [12, 41] },
  { what: "has confirmed has seen every token of the fleet", hosts: [OTHER], want: [41, 41] },
])("a host that $what, of a lease that is ending", async ({ hosts, want }) => {
  const { healed } = await healedBy(fleetThatSays({ epoch: "1" }, [vacatingOn(hosts)]));
  expect(healed).toEqual([want]);
});

async function healedBy(client: Client) {
  const healed: (readonly number[])[] = [];
  const notes: string[] = [];
  const tokens = {
    lost: "missing",
    heal: (seen: readonly number[]) => Promise.resolve(void healed.push(seen)),
  } as unknown as Parameters<typeof healTokens>[0]["tokens"]; // of which no more is used
  await healTokens(
    { id: ID, gpuCount: 2, tokens },
    {
      client,
      fleet: "default",
      closing: new AbortController().signal,
      onNote: (note) => void notes.push(note),
    },
  );
  return { healed, notes };
}
