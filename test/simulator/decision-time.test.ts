/** @file A decision that takes time is carried out as of the time for which it was made, so that what fits to the millisecond is not refused. */
import { expect, test } from "vitest";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { runSimulation } from "../../simulator/simulate.ts";
import { FREE, job, optionsFor } from "./fixtures.ts";

test.each([0, 5, 500])(
  "with %i ms for a decision every gang starts, also on GPUs that the same plan sets apart for the next one",
  (decisionMs) => {
    const jobs = Array.from({ length: 60 }, (_, at) =>
      job(`j${String(at)}`, {
        submittedAtMs: at * 500,
        gpus: [8, 16, 16, 1][at % 4] ?? 8,
        durationMs: 4_000 + 700 * (at % 7),
        estimateMs: (4_000 + 700 * (at % 7)) * (1 + (at % 3)),
        tenant: `t${String(at % 3)}`,
      }),
    );
    const result = runSimulation(
      optionsFor(jobs, { fleet: fleetOf([32]), costs: { ...FREE, decisionMs } }),
    );
    expect(result.decisions.refusals).toBe(0);
    expect(result.jobs).toMatchObject({ ended: 60, waiting: 0 });
  },
);
