/** @file One brain, two bodies: a live fleet's recorded events, with their times, give the same plans when they are folded and decided again. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { decide, decideBaseline, planOfNone } from "../../scheduling/cycle/decide.ts";
import { openSession } from "../../scheduling/cycle/live-scheduler.ts";
import type { RecordedRun } from "../../workers/recorded-fleet.ts";
import { serverAddress } from "../support/server-address.ts";
import { SMALL_FLEET, startWorld, type World } from "../support/world.ts";

let world: World;
beforeAll(async () => {
  world = await startWorld({ address: serverAddress(), fleetYaml: SMALL_FLEET });
});
afterAll(() => world.stop());

/** By the build's own replay, as `explain --decision` does it. */
async function runsOf(fleet: string): Promise<readonly RecordedRun[]> {
  const { recordedRuns } = await import("../../workers/recorded-fleet.ts");
  const { createConverters } = await import("../../workers/codec/converters.ts");
  const { worker: dataConverter, isEncrypted } = createConverters();
  const connection = { workerPayloads: { dataConverter, isEncrypted } };
  const runs: RecordedRun[] = [];
  for await (const run of recordedRuns(world.temporal, fleet, connection)) runs.push(run);
  return runs;
}

describe("a live fleet's history", () => {
  it("tells every event; folded and decided again they give the same plans, and explain tells of each grant", async () => {
    const sizes = [4, 8, 2, 12, 1, 8];
    const jobs = await Promise.all(
      sizes.map((gpus, at) =>
        world.orbweaver.submit({
          name: `j${String(at)}`,
          class: at % 2 === 0 ? "training" : "inference",
          gang: { gpus },
          timeLimit: "1m",
          run: { command: ["sleep", "0.3"], grace: "1s" },
        }),
      ),
    );
    for (const { jobId } of jobs) await world.temporal.workflow.getHandle(jobId).result();
    await world.until("all leases are released", ({ leases }) => leases.size === 0);

    const runs = await runsOf(world.fleet);
    let plans = 0;
    for (const { ledger, events } of runs) {
      const sessions = {
        decide: openSession(ledger),
        baseline: openSession(ledger, { method: "baseline" }),
      };
      for (const event of events) {
        if (event.kind === "plan") {
          const { nowMs } = event;
          const { stats, ...plan } = event.plan;
          // On a busy machine the one that decides is late now and then, and the baseline answers, or none.
          const session = stats.method === "none" ? undefined : sessions[stats.method];
          const whole = { decide, baseline: decideBaseline, none: () => planOfNone(nowMs) };
          for (const again of [
            session?.decide(nowMs) ?? planOfNone(nowMs),
            whole[stats.method](sessions.decide.ledger, nowMs),
          ]) {
            const { stats: _again, ...replayed } = again;
            expect(replayed).toEqual(plan);
          }
          plans += 1;
        }
        for (const session of Object.values(sessions)) session.apply(event);
      }
    }
    expect(plans).toBeGreaterThan(0);
    const [newest] = runs;
    expect(newest?.events.at(-1)?.nowMs).toBeLessThanOrEqual(Date.now());

    const { code, stdout, stderr } = await world.cli([
      "explain",
      jobs[3]?.jobId ?? "",
      "--decision",
    ]);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toContain("was granted at");
  });
});
