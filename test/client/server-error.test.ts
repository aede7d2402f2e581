/** @file What Temporal's client throws becomes one error with a code; what has none passes through. */

import {
  type Client,
  QueryNotRegisteredError,
  ServiceError,
  WorkflowUpdateFailedError,
} from "@temporalio/client";
import {
  ActivityFailure,
  ApplicationFailure,
  NamespaceNotFoundError,
  RetryState,
  WorkflowNotFoundError,
} from "@temporalio/common";
import { expect, it } from "vitest";
import { asked, translated } from "../../client/server-error.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

const refusal = ApplicationFailure.create({
  type: "NOT_ALLOWED",
  message: "job a is running",
  details: [{ x: 1 }],
});

it.each<[string, unknown, object]>([
  [
    "a job that does not exist",
    new WorkflowNotFoundError("workflow not found", "a", undefined),
    { code: "NOT_FOUND" },
  ],
  [
    "a job that has ended",
    new WorkflowNotFoundError("workflow execution already completed", "a", undefined),
    { code: "NOT_ALLOWED" },
  ],
  [
    "an update that was refused",
    new WorkflowUpdateFailedError("", refusal),
    { code: "NOT_ALLOWED", message: "job a is running", details: { x: 1 } },
  ],
  [
    "an agent's refusal under two layers",
    new WorkflowUpdateFailedError(
      "",
      new ActivityFailure("", "readLogs", "1", RetryState.NON_RETRYABLE_FAILURE, "w", refusal),
    ),
    { code: "NOT_ALLOWED" },
  ],
  ["no server", grpc(14, "connection refused"), { code: "NO_CONNECTION" }],
  [
    "no worker",
    grpc(4, "deadline exceeded"),
    { code: "NO_CONNECTION", message: expect.stringContaining("orbweaver up") },
  ],
  [
    "another service behind the address",
    grpc(12, "Received HTTP status code 404"),
    {
      code: "NO_CONNECTION",
      message: expect.stringMatching(/no Temporal server.*Check the address/),
    },
  ],
  ["no poller", grpc(9, "no poller seen"), { code: "NO_CONNECTION" }],
  [
    "no rights",
    grpc(7, "denied"),
    { code: "NO_CONNECTION", message: expect.stringContaining("API key") },
  ],
  [
    "a namespace that does not exist",
    grpc(5, "Namespace x is not found."),
    { code: "NOT_FOUND", message: expect.stringMatching(/namespace x\..*--namespace/) },
  ],
  [
    "a namespace that does not exist, in the client's words",
    new NamespaceNotFoundError("x"),
    { code: "NOT_FOUND", message: expect.stringMatching(/namespace x\..*--namespace/) },
  ],
  [
    "a workflow that is no job",
    new QueryNotRegisteredError("Workflow did not register a handler for job", 3),
    { code: "NOT_FOUND" },
  ],
  ["a query that fails", new QueryNotRegisteredError("boom", 3), { code: "NOT_ALLOWED" }],
  [
    "a payload without its codec",
    new SyntaxError("Unexpected token"),
    { code: "BAD_INPUT", message: expect.stringContaining("--codec") },
  ],
  ["a bad query", grpc(3, "invalid query"), { code: "BAD_INPUT" }],
])("%s", (_name, thrown, want) => {
  const error = translated(thrown, "job a");
  expect(error).toBeInstanceOf(OrbweaverError);
  expect(error).toMatchObject(want);
});

it.each([
  ["a bug", new TypeError("x")],
  ["an error of ours", new OrbweaverError("BAD_INPUT", "x")],
  ["no error at all", "x"],
])("%s passes through", (_name, thrown) => {
  expect(translated(thrown, "job a")).toBe(thrown);
});

const DROPPED = grpc(
  9,
  "Unable to perform workflow execution update due to unexpected workflow task failure.",
);
// Only what `asked` calls.
const client = {
  withDeadline: async (_atMs: number, call: () => Promise<unknown>) => await call(),
} as unknown as Client;

it.each([
  ["an update that the server dropped with its workflow task", DROPPED],
  ["a workflow that has just continued as new", grpc(9, "Workflow task is not scheduled yet.")],
])("asks again for %s", async (_name, refusal) => {
  const answers = [refusal, refusal, "done"];
  const call = async (): Promise<unknown> => {
    const answer = answers.shift();
    if (answer instanceof Error) throw answer;
    return await Promise.resolve(answer);
  };
  expect(await asked(client, "fleet a", call)).toBe("done");
});

it("says that the workers fail where every task fails until the deadline, and asks once for any other failure", async () => {
  const dropped = async (): Promise<never> => await Promise.reject(DROPPED);
  await expect(asked(client, "fleet a", dropped, { withinMs: 250 })).rejects.toMatchObject({
    code: "NOT_ALLOWED",
    message: expect.stringContaining("fail on it"),
  });
  let calls = 0;
  const refused = async (): Promise<never> => {
    calls += 1;
    return await Promise.reject(grpc(3, "invalid"));
  };
  await expect(asked(client, "fleet a", refused)).rejects.toMatchObject({ code: "BAD_INPUT" });
  expect(calls).toBe(1);
});

/** As grpc-js makes them, inside the SDK's own error. */
function grpc(code: number, details: string): ServiceError {
  const cause = Object.assign(new Error(`${String(code)}: ${details}`), {
    code,
    details,
    metadata: {},
  });
  return new ServiceError("failed", { cause });
}
