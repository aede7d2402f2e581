/** @file A command whose keys are not the fleet's is refused before it does anything; whatever else is wrong is for the verb to find. */

import { Client } from "@temporalio/client";
import { defaultPayloadConverter } from "@temporalio/common";
import { encode } from "@temporalio/common/lib/internal-non-workflow/index.js";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { checkKeys } from "../../../cli/command/check-keys.ts";
import { fleetWorkflowId } from "../../../protocol/messages.ts";
import { createConverters } from "../../../workers/codec/converters.ts";
import { newKeyLine } from "../../../workers/codec/key-ring.ts";
import { readableMemos } from "../../../workers/readable-memos.ts";

const dir = mkdtempSync(join(tmpdir(), "orbweaver-keys-"));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const keyFile = (name: string): string => {
  const file = join(dir, name);
  writeFileSync(file, newKeyLine(), { mode: 0o600 });
  return file;
};
const own = createConverters({ keyFile: keyFile("own") }).client;
const context = {
  type: "workflow",
  namespace: "default",
  workflowId: fleetWorkflowId("f"),
} as const;

/** A command with these keys, as `openClient` makes its client, of a fleet with such a memo. */
async function checkedWith(dataConverter: typeof own, isThere = true): Promise<void> {
  const plain = defaultPayloadConverter.toPayload("signed");
  const [word = plain] = await encode(own.payloadCodecs ?? [], [plain], context);
  const describeWorkflowExecution = () =>
    isThere
      ? Promise.resolve({ workflowExecutionInfo: { memo: { fields: { word } } } })
      : Promise.reject(new Error("not there"));
  const connection = {
    workflowService: { describeWorkflowExecution },
    withDeadline: (_: number, call: () => Promise<unknown>) => call(),
  };
  const client = new Client({
    ...{ connection: connection as never, dataConverter },
    interceptors: { workflow: [readableMemos(dataConverter, "default")] },
  });
  await checkKeys(client, "f");
}

it.each([
  ["no keys", {}],
  ["another key", { keyFile: keyFile("other") }],
])("with %s", async (_name, setting) => {
  await expect(checkedWith(createConverters(setting).client)).rejects.toMatchObject({
    code: "ENCRYPTION_KEY_MISSING",
  });
});

it("with the fleet's key, and of a fleet that is not there", async () => {
  await checkedWith(own);
  await checkedWith(own, false);
});
