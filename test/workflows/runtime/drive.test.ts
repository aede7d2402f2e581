/** @file The loop of a machine whose words a plain activity checks: neither a flood of words stops the time, nor a machine that is always due the checks. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import type { Machine } from "../../../machines/machine.ts";

interface Clock {
  readonly ticks: number;
  readonly words: number;
}

/** Always due. */
const clockMachine: Machine<Clock, { readonly kind: "word" }, never> = {
  step: ({ ticks, words }, { kind }) => ({
    state: kind === "tick" ? { ticks: ticks + 1, words } : { ticks, words: words + 1 },
    commands: [],
  }),
  dueAtMs: () => 0,
};

beforeAll(() => {
  vi.resetModules();
  // As the SDK's, without its sandbox.
  vi.doMock("@temporalio/workflow", () => ({
    CancellationScope: class {},
    condition: async (isMet: () => boolean) => {
      while (!isMet()) await new Promise((resolve) => void setTimeout(resolve, 0));
    },
    patched: () => true,
    proxyLocalActivities: () => ({}),
    sleep: async () => undefined,
    workflowInfo: () => ({ workflowId: "w", startTime: new Date(), memo: {} }),
  }));
});
afterAll(() => {
  vi.doUnmock("@temporalio/workflow");
  vi.resetModules();
});

test("while words come during each check, a tick that is due is fed between two checks, and every word is heard", async () => {
  const { drive } = await import("../../../workflows/runtime/drive.ts");
  const { holdBack } = await import("../../../workflows/runtime/word-gate.ts");
  const CHECKS = 50;
  const ticksBefore: number[] = [];
  const say = (): void => {
    const word = { value: new Uint8Array() };
    const hear = (): void => life.feed({ kind: "word" });
    holdBack({ signal: "announce", word, sender: "mallory", hear, refuse: () => undefined });
  };
  const checkWords = async (): Promise<{ readonly refused: [] }> => {
    ticksBefore.push(life.state().ticks);
    if (ticksBefore.length < CHECKS) say();
    return { refused: [] };
  };
  const life = drive({
    machine: clockMachine,
    state: { ticks: 0, words: 0 },
    carryOut: () => undefined,
    wordsBy: { checkWords },
  });
  say();
  const { words } = await life.until((state) => state.words === CHECKS);
  expect(words).toBe(CHECKS);
  expect(ticksBefore).toEqual(Array.from({ length: CHECKS }, (_, at) => at));
});
