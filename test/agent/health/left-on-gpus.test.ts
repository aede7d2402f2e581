/** @file A driver that hangs: launches do not wait for it, and no second program hangs beside the first. */

import { expect, it } from "vitest";
import { PATIENCE_MS, withinPatience } from "../../../agent/health/left-on-gpus.ts";
import { FakeMachine } from "../fakes.ts";

it("a driver that hangs is waited for as long as the patience, by one program, and asked again once that has ended", async () => {
  const machine = new FakeMachine();
  const asked: ((answer: string) => void)[] = [];
  const answer = withinPatience(
    () => new Promise<string>((resolve) => asked.push(resolve)),
    machine.system().clock,
  );
  const said: string[] = [];
  const ask = (): void =>
    void answer().then(
      (text) => said.push(text),
      (error: unknown) => said.push(String(error)),
    );
  ask();
  await machine.pass(PATIENCE_MS - 1);
  expect(said).toEqual([]);
  await machine.pass(1);
  expect(said).toEqual([expect.stringContaining("no answer within 30 s")]);
  ask();
  expect(asked).toHaveLength(1);
  asked[0]?.("late");
  await machine.pass(1);
  expect(said.at(-1)).toBe("late");
  ask();
  asked[1]?.("soon");
  await machine.pass(1);
  expect([asked.length, said.at(-1)]).toEqual([2, "soon"]);
});
