/** @file `orbweaver usage` on 80 columns, from a history database of its own. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { openHistory, type LeaseRecord } from "../../../../console/history/database.ts";
import { run } from "../../run.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-usage-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const HOUR_MS = 3_600_000;
const lease = (job: string, tenant: string): LeaseRecord => ({
  ...{ job, run: "run-1", lease: `${job}-lease`, attempt: 1, tenant, class: "inference" },
  ...{ gpus: 8, gpuType: "H100", clusters: "alpha", lostGpuSeconds: 0 },
  ...{ grantedMs: 0, freedMs: HOUR_MS, freedByMs: null },
});

it("has whole names where every hour is known, and the unknown ones in a column of their own where there are some", async () => {
  const file = join(folder, "history.db");
  const database = await openHistory(file, { isNew: true });
  const usage = async (...words: readonly string[]): Promise<string> =>
    (await run(["usage", "--month", "all", "--history", file, ...words], { columns: 80 })).stdout;
  const use = { job: "done", run: "run-1", lease: "done-lease" };
  database.write({
    leases: [lease("done", "research")],
    uses: [{ ...use, usedMs: HOUR_MS, toldMs: HOUR_MS, fromMs: 0, untilMs: HOUR_MS }],
    due: [],
  });
  const ended = { startedMs: 0, endedMs: HOUR_MS, lostGpuSeconds: 0, bandwidthError: null };
  const of = { job: "done", lease: "done-lease", outcome: "completed" };
  database.writeJobs([{ job: "done", runs: [{ ...of, ...ended }] }]);
  expect(await usage()).toMatch(/^research +- +inference +1 +8\.00 +8\.00 +0\.00 +0\.00 +/m);
  expect(await usage()).not.toMatch(/UNKNOWN/);
  database.write({ leases: [lease("runs", "other")], due: [] });
  expect(await usage("--by", "tenant")).toMatch(/UNKNOWN[^]*^other +1 +8\.00 +0\.00 .* 8\.00 +-/m);
  expect(await usage("-o", "csv")).toMatch(/unknown_gpu_hours/);
  database.close();
});
