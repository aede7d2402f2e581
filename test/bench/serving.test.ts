/** @file The serving bench, small: every way is timed, and the split model answers as the whole one. How fast they are is not asked here. */

import { expect, it } from "vitest";
import { servingBench } from "../../bench/serving.ts";
import { benchRequest } from "../support/bench-request.ts";

it("times the split model and every rival, after their answers agreed", async () => {
  const sizes = new Map([
    ["rounds", 1],
    ["warm-ups", 1],
    ["side", 8],
    ["depth", 2],
    ["width", 4],
  ]);
  const { bars, tables } = await servingBench.run(
    benchRequest({
      size: (name) =>
        sizes.get(name) ??
        servingBench.options.flatMap((option) =>
          option.kind === "size" && option.name === name ? [option.usual] : [],
        )[0] ??
        NaN,
      chosen: () => ["speed"],
    }),
  );
  expect(bars.find(({ id }) => id === "serving-gap")).toMatchObject({ holds: true });
  const speedUp = bars.find(({ id }) => id === "serving-speed-up");
  expect(speedUp).toMatchObject({ want: ">= 1.2" });
  expect(speedUp?.got).toBeGreaterThan(0);
  const ways = tables?.[0]?.rows.map(([name]) => name);
  expect(ways).toEqual([
    "split over 2 lanes",
    "one session, 1 thread",
    "one session, 2 threads",
    "… that sleep at once",
    "one session, 2 operators at once",
  ]);
});
