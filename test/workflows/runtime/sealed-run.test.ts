/** @file Level 2, payloads have keys: a fleet that was begun in the open is not believed because somebody in the open has answered one of its activities. */

import type { ActivityInput, WorkflowInterceptors } from "@temporalio/workflow";
import { defaultPayloadConverter } from "@temporalio/common";
import { describe, expect, it, vi } from "vitest";
import { FLEET_WORKFLOW } from "../../../protocol/messages.ts";
import { INPUT_FLAW_HEADER, SEAL_KEY } from "../../../protocol/seal.ts";
import { interceptors } from "../../../workflows/runtime/sealed-run.ts";

vi.mock("@temporalio/workflow", async (original) => ({
  ...(await original<object>()),
  workflowInfo: () => ({ startTime: new Date(7_000), workflowType: FLEET_WORKFLOW }),
}));

type Sealing = "open" | "unbound" | "bound" | "none";

function payload(sealing: Sealing) {
  const plain = defaultPayloadConverter.toPayload(1);
  if (sealing === "open") return plain;
  return { ...plain, metadata: { ...plain.metadata, [SEAL_KEY]: Buffer.from(sealing) } };
}

/** What the header of the next activity says, after such an input and such answers. */
function flawAfter(input: Sealing, answers: readonly Sealing[]): unknown {
  const { internals = [], outbound = [] } = interceptors() as Required<WorkflowInterceptors>;
  const activate = (jobs: readonly object[]): void => {
    const activation = { activation: { jobs } } as never; // as far as it is read
    internals[0]?.activate?.(activation, () => undefined as never);
  };
  activate([{ initializeWorkflow: { arguments: [payload(input)] } }]);
  for (const answer of answers) {
    const completed = answer === "none" ? {} : { result: payload(answer) };
    activate([{ resolveActivity: { result: { completed } } }]);
  }
  let headers: ActivityInput["headers"] = {};
  const activity = { headers } as ActivityInput; // as far as it is read
  void outbound[0]?.scheduleActivity?.(activity, (given) => {
    headers = given.headers;
    return Promise.resolve();
  });
  const header = headers[INPUT_FLAW_HEADER];
  return header && defaultPayloadConverter.fromPayload(header);
}

describe("the activities of a fleet whose input", () => {
  it.each<[Sealing, readonly Sealing[], string | undefined]>([
    ["bound", [], undefined],
    ["open", [], "open"],
    ["open", ["open"], "open"],
    ["open", ["none"], "open"],
    ["open", ["unbound", "open"], "open"],
    ["open", ["bound"], undefined],
    ["open", ["bound", "open"], undefined],
    ["unbound", ["unbound"], "unbound"],
  ])("was %s, after answers %j, say %s of it", (input, answers, want) => {
    expect(flawAfter(input, answers)).toEqual(want && { flaw: want, atMs: 7_000 });
  });
});
