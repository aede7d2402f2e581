/** @file A verb that only reads begins before its server is reached, and prints nothing where that fails. */

import { expect, it } from "vitest";
import { createCommandContext } from "../../../cli/command/command-context.ts";
// Loaded with the first verb, which on a busy machine takes longer than a test may.
import "../../../cli/command/service-session.ts";
import type { Session } from "../../../cli/command/session.ts";
import type { Io } from "../../../cli/terminal/io.ts";

function contextWith(ready: Promise<void>): {
  readonly context: ReturnType<typeof createCommandContext>;
  readonly closed: () => number;
} {
  let closed = 0;
  const session = {
    fleet: "default",
    client: {},
    ready,
    close: () => {
      closed += 1;
      return Promise.resolve();
    },
  } as unknown as Session; // the parts that a context uses
  const never = (): never => {
    throw new Error("not used");
  };
  const context = createCommandContext({
    io: { env: {}, cwd: "/", stdout: {}, stderr: {} } as unknown as Io, // no verb prints here
    ...{ openSession: () => Promise.resolve(session), commandLine: undefined },
    ...{ exitWith: never, endsByItself: never },
  });
  return { context, closed: () => closed };
}

it("reads while the server is reached; other verbs wait for that", async () => {
  let isReached = (): void => undefined;
  const { context, closed } = contextWith(new Promise((resolve) => (isReached = resolve)));
  const begun: string[] = [];
  const verb = (name: string) => () => Promise.resolve(begun.push(name));
  const other = context.withFleet({}, verb("other"));
  await new Promise<void>((resolve) => {
    void context.readFleet({}, () => {
      begun.push("reader");
      resolve();
      return Promise.resolve();
    });
  });
  expect(begun).toEqual(["reader"]);
  isReached();
  await other;
  expect(begun).toEqual(["reader", "other"]);
  expect(closed()).toBe(2);
});

it("says why the server is not reached, also where the read has failed before", async () => {
  const refusal = new Error("the key is not the fleet's");
  const { context, closed } = contextWith(
    new Promise((_, reject) => setImmediate(() => reject(refusal))),
  );
  await expect(
    context.readFleet({}, () => Promise.reject(new Error("no such fleet"))),
  ).rejects.toBe(refusal);
  expect(closed()).toBe(1);
});

it("fails as the read does where the server is reached", async () => {
  const missing = new Error("no such fleet");
  const { context } = contextWith(Promise.resolve());
  await expect(context.readFleet({}, () => Promise.reject(missing))).rejects.toBe(missing);
});
