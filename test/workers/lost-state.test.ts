/** @file A host that has lost its tokens takes them from the fleet, whatever the fleet knows of the host. */

import type { Client } from "@temporalio/client";
import { expect, test } from "vitest";
import { hostId, clusterId, token } from "../../domain/values/ids.ts";
import { hostQuery } from "../../protocol/messages.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { drawSettings } from "../../world/draw-settings.ts";
import { healTokens } from "../../workers/lost-state.ts";

const ID = hostId(clusterId("c0"), "h0");

/** A fleet whose next token is 42, with this answer about the host. */
const fleetThatSays = (agent: unknown): Client => {
  const ledger = packLedger({ ...emptyLedger(drawSettings(1).shape), nextToken: token(42) });
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
  const healed: (readonly number[])[] = [];
  const notes: string[] = [];
  const tokens = {
    lost: "missing",
    heal: (seen: readonly number[]) => Promise.resolve(void healed.push(seen)),
  } as unknown as Parameters<typeof healTokens>[0]["tokens"]; // of which no more is used
  await healTokens(
    { id: ID, gpuCount: 2, tokens },
    {
      client: fleetThatSays(agent),
      fleet: "default",
      closing: new AbortController().signal,
      onNote: (note) => void notes.push(note),
    },
  );
  expect(healed).toEqual([[41, 41]]);
  expect(notes).toHaveLength(wantNotes);
});
