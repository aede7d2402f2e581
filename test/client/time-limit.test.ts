import { expect, it } from "vitest";
import { nodeClock } from "../../agent/system/node-clock.ts";
import { withinTime } from "../../client/time-limit.ts";
import { collectGarbage } from "../support/collect-garbage.ts";
import { eventually } from "../agent/fixture.ts";

const never = new AbortController().signal;

it.each([
  { name: "a time limit", signalOf: () => withinTime(1_000, never) },
  {
    name: "an agent's deadline beside another signal",
    signalOf: () => AbortSignal.any([never, nodeClock.deadline(1_000)]),
  },
])("$name comes although garbage is collected while it is waited for", async ({ signalOf }) => {
  let hasCome = false;
  signalOf().addEventListener("abort", () => {
    hasCome = true;
  });
  await eventually(() => {
    collectGarbage();
    return hasCome;
  });
  expect(hasCome).toBe(true);
});

it("a time limit comes at once where the other signal has", () => {
  const stop = new AbortController();
  const limit = withinTime(3_600_000, stop.signal);
  stop.abort();
  expect(limit.aborted).toBe(true);
});
