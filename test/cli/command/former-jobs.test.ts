/** @file Jobs that wait for namesakes (`--singleton`), and for jobs that only the history database remembers. */

import { mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { isMetBy, withoutRemembered } from "../../../cli/command/remembered-jobs.ts";
import { afterItsNamesakes } from "../../../cli/command/singleton.ts";
import type { FleetClient, JobFile, JobFilter } from "../../../client/index.ts";
import { openHistory } from "../../../console/history/database.ts";
import { historyFileIn } from "../../../workers/state.ts";

const job = (more: Partial<JobFile> = {}): JobFile => ({
  name: "sync",
  gang: 1,
  run: { command: ["true"] },
  ...more,
});

describe("--singleton", () => {
  const asked: JobFilter[] = [];
  const client = (names: readonly (readonly [id: string, name: string])[]): FleetClient =>
    ({
      async *list(filter: JobFilter) {
        asked.push(filter);
        for (const [jobId, name] of names) yield await Promise.resolve({ jobId, name });
      },
    }) as unknown as FleetClient;

  it("waits for the end of the user's open jobs of the very name, beside what the file waits for", async () => {
    const written = [{ job: "first" }, { job: "b", on: "end" as const }];
    const found = client([
      ["sync-other", "sync-other"],
      ["b", "sync"],
      ["a", "sync"],
    ]);
    expect((await afterItsNamesakes(found, job({ after: written }))).after).toEqual([
      ...written,
      { job: "a", on: "end" },
    ]);
    expect(asked.at(-1)).toEqual({
      state: ["pending", "held", "running"],
      isMine: true,
      name: "sync",
    });
  });

  it("waits for nothing where there are none, and is refused where there are too many", async () => {
    expect(await afterItsNamesakes(client([]), job())).not.toHaveProperty("after");
    const many = Array.from({ length: 33 }, (_, at) => [`j${String(at)}`, "sync"] as const);
    await expect(afterItsNamesakes(client(many), job())).rejects.toMatchObject({
      code: "NOT_ALLOWED",
    });
  });
});

describe("a job that only the history remembers", () => {
  it.each([
    { on: "success", outcome: "completed", want: true },
    { on: "success", outcome: "failed", want: false },
    { on: "failure", outcome: "completed", want: false },
    { on: "failure", outcome: "terminated", want: true },
    { on: "end", outcome: "cancelled", want: true },
    { on: "start", outcome: "failed", want: true },
  ] as const)("$on after $outcome: $want", ({ on, outcome, want }) => {
    expect(isMetBy(on, { outcome })).toBe(want);
  });

  async function remembering(outcome: string) {
    const env = { ORBWEAVER_STATE_DIR: mkdtempSync(join(tmpdir(), "orbweaver-remembered-")) };
    const path = historyFileIn(env, "default");
    mkdirSync(dirname(path), { recursive: true });
    const database = await openHistory(path, { isNew: true });
    const row = {
      ...{ job: "old", run: "r", name: "old", tenant: "t", class: "training", user: "ada" },
      ...{ gpus: 1, tasks: 0, submittedMs: 1, endedMs: 2, outcome, why: "" },
    };
    database.writeJobs([{ job: "old", record: row, runs: [] }]);
    database.close();
    const said: string[] = [];
    const context = { io: { env }, say: (text: string) => said.push(text) } as never;
    return (after: JobFile["after"], missing = ["old"]) =>
      withoutRemembered(context, job({ after } as Partial<JobFile>), { missing, fleet: "default" });
  }

  it("is not waited for where it has ended as it was to; others still are", async () => {
    const settle = await remembering("completed");
    expect(await settle([{ job: "old" }])).not.toHaveProperty("after");
    expect((await settle([{ job: "old" }, { job: "new" }]))?.after).toEqual([{ job: "new" }]);
    expect(await settle([{ job: "old" }, { job: "x" }], ["old", "x"])).toBeUndefined();
  });

  it("refuses the job where it can never be met", async () => {
    const settle = await remembering("failed");
    await expect(settle([{ job: "old" }])).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    expect(await settle([{ job: "old", on: "failure" }])).not.toHaveProperty("after");
  });
});
