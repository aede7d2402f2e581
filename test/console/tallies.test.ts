/** @file The sums that a history database keeps: whole numbers, over all that was ever written; and whose it is. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, expect, it } from "vitest";
import { openHistory, type HistoryDatabase } from "../../console/history/database.ts";

const scratch = mkdtempSync(path.join(tmpdir(), "orbweaver-tallies-"));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

it("keeps its sums: of a file that a former release wrote, and with expected bandwidths that were measured", async () => {
  const file = path.join(scratch, "sums.db");
  const lease = {
    ...{ job: "one", run: "run-1", lease: "lease-1", attempt: 1, tenant: "default" },
    ...{ class: "training", gpus: 8, gpuType: "H100", clusters: "alpha", lostGpuSeconds: 0 },
    ...{ grantedMs: 1_000, freedMs: 9_000 },
  };
  const run = { job: "one", lease: lease.lease, startedMs: 2_000, endedMs: 8_000 };
  const end = { ...run, lostGpuSeconds: 16, bandwidthError: 0.25, outcome: "stopped" };
  const sums = (database: HistoryDatabase) =>
    database
      .tallies()
      .filter(({ value }) => value !== 0)
      .map(({ name, class: jobClass, end: how, value }) => [name, jobClass, how, value]);
  const former = await openHistory(file, { isNew: true });
  former.write({ due: [], leases: [lease] });
  expect(sums(former)).toEqual([]);
  former.writeJobs([{ job: "one", runs: [end] }]);
  const want = [
    ["idle", "training", "stopped", 16_000],
    ["lost", "training", "stopped", 16_000],
    ["prediction-error", "training", "stopped", 250_000],
    ["predictions", "training", "stopped", 1],
    ["useful", "training", "stopped", 32_000],
  ];
  expect(sums(former)).toEqual(want);
  former.writeJobs([{ job: "one", runs: [{ ...end, outcome: "failed", lostGpuSeconds: 0 }] }]);
  expect(sums(former)).toEqual([
    ["idle", "training", "failed", 16_000],
    ["prediction-error", "training", "failed", 250_000],
    ["predictions", "training", "failed", 1],
    ["useful", "training", "failed", 48_000],
  ]);
  former.writeJobs([{ job: "one", runs: [end] }]);
  former.close();
  const { default: Database } = await import("libsql");
  const bare = new Database(file);
  bare.exec("DROP TRIGGER tally_job; DROP TRIGGER tally_lease; DROP TABLE tallies");
  bare.close();
  const again = await openHistory(file, { isNew: true });
  expect(sums(again)).toEqual(want);
  again.close();
});

it("refuses the history of another fleet, and takes its own again", async () => {
  const file = path.join(scratch, "owned.db");
  const owner = { namespace: "default", fleet: "eu" };
  for (let times = 0; times < 2; times += 1)
    (await openHistory(file, { isNew: true, owner })).close();
  for (const other of [
    { ...owner, fleet: "us" },
    { ...owner, namespace: "test" },
  ])
    await expect(openHistory(file, { isNew: true, owner: other })).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringMatching(/has the history of fleet eu in namespace default/),
    });
  (await openHistory(file, { isNew: false })).close();
});
