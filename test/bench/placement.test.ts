/** @file A short run of the placement bench: its answers are valid, and as good as is wanted; its times are for a quiet machine. */
import { expect, test } from "vitest";
import { crowdedFleet } from "../../bench/queue/crowded-fleet.ts";
import { measurePlacement } from "../../bench/queue/placement.ts";
import { drawFrom } from "../../bench/statistics.ts";
import { gpuCountOf } from "../../domain/lease/lease.ts";

test("nine tenths of 1,798 GPUs are taken, and what a preemption could free holds the largest gang", () => {
  const fleet = crowdedFleet(drawFrom(7));
  expect(fleet.gpus).toBe(1_798);
  for (let round = 0; round < 5; round += 1) {
    const { free, freeable } = fleet.next();
    const count = (hosts: typeof free): number =>
      gpuCountOf(hosts.map(({ at, freeMask }) => ({ host: at.host, mask: freeMask })));
    expect(count(free)).toBe(180);
    expect(count(freeable)).toBeGreaterThan(1_000);
    const whole = free.filter((host) => count([host]) === host.at.gpuCount);
    expect(whole.length).toBeLessThan(free.length / 2);
  }
});

test("no gang costs more than by greedy with swaps, nor more than by trying every set", async () => {
  const { signal } = new AbortController();
  const bars = await measurePlacement({
    seed: 3,
    placements: 30,
    say: () => {},
    interrupted: signal,
  });
  const byId = new Map(bars.map((bar) => [bar.id, bar]));
  // On a busy machine its 50 ms do not bring greedy with swaps as far as ours.
  expect(byId.get("placement-cost-to-swaps")).toMatchObject({ holds: true });
  expect(byId.get("placement-cost-to-exact")).toMatchObject({ got: 1, holds: true });
  for (const id of ["placement-p50", "placement-p99", "placement-1000-p99"]) {
    expect(byId.get(id)?.got).toBeGreaterThan(0);
  }
  const ours = byId.get("placement-throughput-ours")?.got ?? 0;
  expect(ours).toBeGreaterThan(byId.get("placement-throughput-first-fit")?.got ?? 1);
});
