import { expect, test } from "vitest";
import { runCrowd } from "../../bench/crowd/run.ts";
import { createJobs, type Jobs } from "../../bench/crowd/jobs.ts";
import { benchRequest } from "../support/bench-request.ts";

const sizes: Readonly<Record<string, number>> = { jobs: 6_000, tenants: 5, gpus: 64, places: 160 };

/** The bench in small; its own bars say that none is lost, started twice, starved or overtaken by many. */
test("every job of a crowd that can run starts once, in about the order of its tenant's submissions", async () => {
  const lines: string[] = [];
  const { bars } = await runCrowd(
    benchRequest({ size: (name) => sizes[name] ?? 0, say: (line) => lines.push(line) }),
  );
  expect(bars.filter(({ holds }) => !holds)).toEqual([]);
  expect(lines.at(-1)).toMatch(/jobs started/);
});

test("a crowd has jobs that are cancelled, and jobs that can never run", () => {
  const jobs: Jobs = createJobs({ jobs: 20_000, tenants: 4 });
  const all = Array.from({ length: jobs.count }, (_, job) => job);
  expect(all.filter(jobs.isCancelled).length).toBeGreaterThan(100);
  expect(all.filter(jobs.isImpossible).length).toBeGreaterThan(2);
});
