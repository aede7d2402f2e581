/** @file `up` asks a fleet again whose worker is only just starting, and tells what else went wrong at once. */

import { expect, it } from "vitest";
import { firstAnswer } from "../../cli/up/agents.ts";
import type { Ledger } from "../../client/index.ts";
import type { FailureCode } from "../../domain/values/codes.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";

const LEDGER = { hosts: new Map() } as unknown as Ledger;

/** Fails with these codes, one after the other, and answers then. */
function fleetThatFails(codes: FailureCode[]): { readonly fleet: () => Promise<Ledger> } {
  return {
    fleet: async () => {
      await Promise.resolve();
      const code = codes.shift();
      if (code !== undefined) throw new OrbweaverError(code, code);
      return LEDGER;
    },
  };
}

it("a worker that has not answered yet is asked again", async () => {
  await expect(
    firstAnswer(fleetThatFails(["NO_CONNECTION", "NO_CONNECTION"]), Date.now),
  ).resolves.toBe(LEDGER);
});

it("nobody is asked for longer than three minutes", async () => {
  let nowMs = 0;
  const codes = Array.from({ length: 100 }, (): FailureCode => "NO_CONNECTION");
  const asking = firstAnswer(fleetThatFails(codes), () => (nowMs += 91_000));
  await expect(asking).rejects.toThrow("NO_CONNECTION");
  expect(codes.length).toBe(98);
});

it("any other refusal is told at once", async () => {
  await expect(firstAnswer(fleetThatFails(["NOT_FOUND"]), Date.now)).rejects.toThrow("NOT_FOUND");
});
