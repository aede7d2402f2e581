/**
 * @file Invalid signals: wrong names, wrong shapes, unreadable payloads, megabytes.
 *
 * None of them could come from an entitled sender; the fleet would rightly accept an `end` for another's job.
 */

import type { Client } from "@temporalio/client";
import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { insist } from "./insistence.ts";

/** What the server takes of one signal is at most 2 MiB. */
const OVERSIZED_CHARACTERS = 1_800_000;
const NAMES = [
  "inbox",
  "grant",
  "pending",
  "announce",
  "deregister",
  "fenced",
  "assert",
  "no-such-signal",
];

const VALUES: readonly unknown[] = [
  null,
  42,
  "junk",
  [],
  {},
  [[[[[[null]]]]]],
  [{ kind: "request" }],
  [{ kind: "end", jobId: "", runId: 7, seq: -1 }],
  [{ kind: "agent-registered", hosts: ["no/such"], agent: {}, running: "none", highestToken: "x" }],
  [{ kind: "vacated", lease: "lease-none", hosts: [null] }],
  [{ kind: "silence", hosts: ["alpha/a1"], epoch: { toString: "no" } }],
  { seq: 1, lease: { id: "lease-0" }, agents: [] },
  { seq: Number.MAX_SAFE_INTEGER, reason: { code: "NoSuchCode" } },
  { __proto__: null, constructor: 1, kind: "__proto__" },
];

const RAW: readonly Payload[] = [
  { metadata: { encoding: bytes("json/plain") }, data: bytes('{"torn') },
  { metadata: { encoding: bytes("binary/of-another-codec") }, data: bytes("\u0000\u0001") },
  { metadata: {}, data: bytes("no encoding") },
];

/** A few signals to one workflow; the answer says how many the server took. */
export async function sendJunk(
  client: Client,
  workflowId: string,
  { share, size }: { readonly share: number; readonly size: number },
): Promise<number> {
  const count = 2 + Math.floor(size * 6);
  const payloads = [...VALUES.map((value) => defaultPayloadConverter.toPayload(value)), ...RAW];
  let taken = 0;
  for (let index = 0; index < count; index += 1) {
    const at = Math.floor(share * 9973) + index * 7;
    const payload = payloads[at % payloads.length];
    const name = NAMES[(at + index) % NAMES.length] ?? "junk";
    if (
      await send(client, { workflowId, name, payloads: payload === undefined ? [] : [payload] })
    ) {
      taken += 1;
    }
  }
  return taken;
}

/** Signals as large as the server takes, under the names that the workflow listens to. */
export async function sendOversized(
  client: Client,
  workflowId: string,
  name: string,
): Promise<number> {
  const text = "x".repeat(OVERSIZED_CHARACTERS);
  let taken = 0;
  for (const value of [[text], { kind: "request", request: text }]) {
    const payloads = [defaultPayloadConverter.toPayload(value)];
    if (await send(client, { workflowId, name, payloads })) taken += 1;
  }
  return taken;
}

async function send(
  client: Client,
  signal: { readonly workflowId: string; readonly name: string; readonly payloads: Payload[] },
): Promise<boolean> {
  const answer = await insist(client, () =>
    client.workflowService.signalWorkflowExecution({
      namespace: client.options.namespace,
      workflowExecution: { workflowId: signal.workflowId },
      signalName: signal.name,
      input: { payloads: signal.payloads },
    }),
  );
  return answer !== undefined;
}

function bytes(text: string): Uint8Array {
  return new TextEncoder().encode(text);
}
