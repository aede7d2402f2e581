import { expect, test } from "vitest";
import { runLiveCycle } from "../../bench/live-cycle/run.ts";
import { benchRequest } from "../support/bench-request.ts";

const sizes: Readonly<Record<string, number>> = {
  gpus: 256,
  requests: 300,
  cycles: 20,
  changes: 5,
};

/** The bench in small. It throws where a plan of the fed decider is not that of the whole ledger, or where a run does not end. */
test("the fed decider follows every cycle and every end of a run", async () => {
  const { bars } = await runLiveCycle(
    benchRequest({ size: (name) => sizes[name] ?? 0, chosen: () => ["cycle"] }),
  );
  const notes = new Map(bars.map(({ id, note }) => [id, note]));
  expect(notes.get("live-cycle-baseline-answers")).toMatch(/^\d+ plans by decide, 0 answers stale/);
  expect(notes.get("live-cycle-continue-p99")).toMatch(/10 times.*; 0 answers stale/);
});
