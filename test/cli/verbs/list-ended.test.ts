/** @file `orbweaver list --ended` on 80 columns, from a history database of its own. */

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { openHistory, type JobRecord } from "../../../console/history/database.ts";
import { run } from "../run.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-list-ended-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WHY =
  "rank 3 on eu-1/host-14 ended with exit status 1: CUDA error, out of memory, see the logs";
const record = (job: string, more: Partial<JobRecord>): JobRecord => ({
  ...{ job, run: "run-1", name: "train", tenant: "research", class: "interactive", user: "ann" },
  ...{ gpus: 128, tasks: 0, submittedMs: 0, endedMs: 3_661_000, outcome: "completed", why: "" },
  ...more,
});

it("has tenants and classes whole, and why a job ended so below it; a program gets whole ids", async () => {
  const file = join(folder, "history.db");
  const database = await openHistory(file, { isNew: true });
  const long = "a-long-name-of-a-sweep-over-learning-rates-k3f9x2";
  database.writeJobs(
    [record("short", {}), record(long, { outcome: "failed", why: WHY })].map((each) => ({
      ...{ job: each.job, record: each, runs: [] },
    })),
  );
  database.close();
  const list = async (isTerminal: boolean): Promise<readonly string[]> => {
    const words = ["list", "--ended", "--since", "30d", "--history", file];
    const { stdout } = await run(words, { columns: 80, isTerminal, nowMs: 3_662_000 });
    return stdout.trimEnd().split("\n");
  };
  const lines = await list(true);
  expect(lines.filter((line) => line.length > 80)).toEqual([]);
  expect(lines[0]).toMatch(/^JOB +ENDED \(UTC\) +TENANT +CLASS +GPUS +AFTER +OUTCOME$/);
  const row = / 1970-01-01 01:01 +research +interactive +128 +1h\S* +(completed|failed)$/;
  expect(lines.filter((line) => row.test(line))).toHaveLength(2);
  expect(lines.join(" ").replace(/ +/g, " ")).toContain(WHY);
  expect((await list(false)).join("\n")).toContain(`${long} `);
});
