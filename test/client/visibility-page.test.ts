/** @file A page of visibility is read off the wire as Temporal's own message types read it. */

import proto from "@temporalio/proto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { readVisibilityPage } from "../../client/visibility-page.ts";

const { workflowservice, common } = proto.temporal.api;
const { ListWorkflowExecutionsResponse: Response } = workflowservice.v1;

const bytes = fc.uint8Array({ maxLength: 40 });
const metadata = fc.dictionary(fc.constantFrom("encoding", "type"), bytes);
const json = fc.jsonValue().map((value) => Buffer.from(JSON.stringify(value)));
const entries = fc.dictionary(
  fc.constantFrom("asked", "not asked", "漢字", ""),
  fc.record({ metadata, data: json }),
);
const time = fc.record({
  seconds: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
  nanos: fc.integer({ min: 0, max: 999_999_999 }),
});
const row = fc.record(
  {
    execution: fc.record({ workflowId: fc.string({ unit: "grapheme" }), runId: fc.uuid() }),
    type: fc.record({ name: fc.string() }),
    startTime: time,
    closeTime: time,
    status: fc.integer({ min: 0, max: 8 }),
    historyLength: fc.integer({ min: 0, max: 2 ** 31 - 1 }),
    executionTime: time,
    memo: fc.record({ fields: entries }, { requiredKeys: [] }),
    searchAttributes: fc.record({ indexedFields: entries }, { requiredKeys: [] }),
    taskQueue: fc.string(),
  },
  { requiredKeys: [] },
);

const ASKED = new Set(["asked", "漢字", "absent"]);

it("has the same ids, states, times and asked entries, whatever else stands between", () => {
  fc.assert(
    fc.property(fc.array(row, { maxLength: 5 }), bytes, (executions, nextPageToken) => {
      const sent = Response.encode({ executions: executions as object[], nextPageToken }).finish();
      const page = readVisibilityPage(sent, { attributes: ASKED, memo: ASKED });
      const want = Response.decode(sent);
      expect(Buffer.from(page.nextPageToken)).toEqual(Buffer.from(want.nextPageToken));
      expect(
        page.rows.map(({ attributes, memo, closedAtMs, ...each }) => ({
          ...{ ...each, closedAtMs, attributes: Object.fromEntries(attributes) },
          memo: [...memo].map(([name, payload]) => [name, dataOf(payload)]),
        })),
      ).toEqual(
        want.executions.map(({ execution, status, startTime, closeTime, memo, ...each }) => ({
          workflowId: execution?.workflowId ?? "",
          status,
          startedAtMs: msOf(startTime) ?? 0,
          closedAtMs: msOf(closeTime),
          attributes: Object.fromEntries(
            asked(each.searchAttributes?.indexedFields).map(([name, { data }]) => [
              name,
              Buffer.from(data ?? []).toString("utf8"),
            ]),
          ),
          memo: asked(memo?.fields).map(([name, { data }]) => [name, Buffer.from(data ?? [])]),
        })),
      );
    }),
  );
});

it("refuses a page that ends in the middle of a row", () => {
  const whole = Response.encode({
    executions: [{ execution: { workflowId: "job-1" }, status: 1 }],
  }).finish();
  const asked = { attributes: ASKED, memo: ASKED };
  expect(() => readVisibilityPage(whole.subarray(0, -3), asked)).toThrow();
});

interface Payload {
  readonly data?: Uint8Array | null;
}

const asked = (
  fields: Readonly<Record<string, Payload>> | null | undefined,
): readonly (readonly [string, Payload])[] =>
  Object.entries(fields ?? {}).filter(([name]) => ASKED.has(name));

const dataOf = (payload: Uint8Array): Buffer =>
  Buffer.from(common.v1.Payload.decode(payload).data ?? []);

const msOf = (
  at: { readonly seconds?: unknown; readonly nanos?: number | null } | null | undefined,
): number | undefined =>
  at === null || at === undefined
    ? undefined
    : Number(at.seconds ?? 0) * 1_000 + Math.floor((at.nanos ?? 0) / 1e6);
