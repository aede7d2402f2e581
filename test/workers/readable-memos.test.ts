/** @file Descriptions of workflows with memos that nobody can decode: Temporal's own decoder reads what is left of them. */

import { Client } from "@temporalio/client";
import type { Payload, PayloadCodec } from "@temporalio/common";
import { decodeMapFromPayloads } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { expect, it } from "vitest";
import { UNREADABLE } from "../../protocol/unreadable.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { readableMemos } from "../../workers/readable-memos.ts";

const payload = (encoding: string, text: string): Payload => ({
  metadata: { encoding: Buffer.from(encoding) },
  data: Buffer.from(text),
});

/** Refuses what it has not written. */
const strict: PayloadCodec = {
  encode: (payloads) =>
    Promise.resolve(payloads.map((each) => ({ ...each, metadata: { ...each.metadata, own: ME } }))),
  decode: (payloads) => {
    if (payloads.some(({ metadata }) => metadata?.["own"] === undefined)) throw new Error("whose?");
    return Promise.resolve(payloads);
  },
};
const ME = Buffer.from("me");

it.each([
  ["without keys", [] as PayloadCodec[], (each: Payload) => Promise.resolve(each)],
  [
    "with a codec that reads its own alone",
    [strict],
    async (each: Payload) => (await strict.encode([each]))[0] ?? each,
  ],
] as const)(
  "%s have a value in the place of each such entry, and the others",
  async (_name, codecs, own) => {
    const fields = {
      good: await own(payload("json/plain", "7")),
      torn: payload("json/plain", "{"),
      strange: payload("no/such", "{"),
      locked: payload("binary/encrypted", "{"),
      packed: payload("binary/zlib", "{"),
    };
    const { payloadCodecs = [] } = createConverters().client;
    const dataConverter = { payloadCodecs: [...payloadCodecs, ...codecs] };
    const description = { workflowExecutionInfo: { memo: { fields } } };
    const { describe } = readableMemos(dataConverter, "default");
    const input = { workflowExecution: { workflowId: "w" } };
    expect(await describe?.(input, () => Promise.resolve(description as never))).toBe(description);
    const { loadedDataConverter } = new Client({ dataConverter }).options;
    expect(await decodeMapFromPayloads(loadedDataConverter, fields)).toEqual({
      good: 7,
      ...{ torn: UNREADABLE, strange: UNREADABLE, locked: UNREADABLE, packed: UNREADABLE },
    });
  },
);
