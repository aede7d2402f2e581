/** @file `bench live` on a few jobs, as a user starts it: real processes beside the floor, one document, nothing left on the server. */

import { expect, it } from "vitest";
import { benchRunsLeft, runBench } from "../support/bench-run.ts";
import { serverAddress } from "../support/server-address.ts";

it("measures a job and the floor, and ends what it has started", async () => {
  const address = serverAddress();
  const sizes = ["--only", "granted,jobs", "--rounds", "2", "--jobs", "3", "--blocks", "1"];
  const { name, holds, bars, code } = await runBench("live", address, sizes);
  expect(name).toBe("live");
  expect(bars.map(({ id }) => id)).toEqual(
    expect.arrayContaining(["granted-ratio", "running-p99", "jobs", "floor-jobs", "jobs-ratio"]),
  );
  for (const { id, got } of bars) expect(got, id).toBeGreaterThan(0);
  // On a busy machine a bar may not hold; the exit status says so either way.
  expect(code).toBe(holds ? 0 : 1);
  expect(await benchRunsLeft(address)).toBe(0);
});
