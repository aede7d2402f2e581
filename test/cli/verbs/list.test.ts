/** @file `list`: which jobs it asks for, in which columns, order and form it answers. */

import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import type { JobFilter, ListedJob } from "../../../client/index.ts";
import { readCsv } from "../../../domain/values/csv.ts";
import { hostId, jobId } from "../../../domain/values/ids.ts";
import { ask, fleetShape, inbox, readyLedger } from "../../scheduling/builders.ts";
import { run } from "../run.ts";

const NOW_MS = 3_600_000;
const LONG =
  "a-job-with-a-name-that-nobody-could-call-short-and-that-no-table-of-80-columns-holds-7f3k2p";

const listed = (more: Partial<ListedJob>): ListedJob => ({
  jobId: jobId("a"),
  state: "pending",
  class: "training",
  tenant: "research",
  gpus: 8,
  clusters: [],
  hosts: [],
  submittedAtMs: NOW_MS - 90_000,
  ...more,
});

const JOBS: readonly ListedJob[] = [
  listed({ jobId: jobId(LONG), state: "running", hosts: [hostId("c", "h")], gpus: 2, priority: 5 }),
  listed({
    jobId: jobId("b"),
    name: "b, the second",
    user: "ada",
    submittedAtMs: NOW_MS - 7_200_000,
  }),
  listed({ jobId: jobId("c"), labels: { team: "vision", sweep: "7" }, gpus: 64, priority: -1 }),
];

/** A client that lists these jobs and keeps the filters it was given. */
function listing(jobs: readonly ListedJob[] = JOBS) {
  const filters: JobFilter[] = [];
  const listPages = async function* (filter: JobFilter = {}): AsyncGenerator<readonly ListedJob[]> {
    filters.push(filter);
    for (const job of jobs.slice(0, filter.limit)) yield await Promise.resolve([job]);
  };
  return { client: { listPages }, filters };
}

const list = (...words: readonly string[]) => {
  const { client, filters } = listing();
  return run(["list", ...words], { client, nowMs: NOW_MS }).then((said) => ({ ...said, filters }));
};

describe("place", () => {
  it("is that of the queue's order, asked for only where a column or the order wants it", async () => {
    const { client } = listing();
    const ledger = inbox(readyLedger(fleetShape([{ hosts: [{}] }])), [
      ask({ job: "b", gpus: 8, submittedAtMs: 2, requestedAtMs: 2 }),
      ask({ job: "c", gpus: 8, submittedAtMs: 1, requestedAtMs: 1 }),
    ]).ledger;
    const asked = { client: { ...client, fleet: () => Promise.resolve(ledger) }, nowMs: 10 };
    const { stdout } = await run(["list", "--columns", "job,place", "--sort", "place"], asked);
    expect(
      stdout
        .trimEnd()
        .split("\n")
        .map((line) => line.split(/ +/)),
    ).toEqual([["JOB", "PLACE"], ["c", "1"], ["b", "2"], [LONG]]);
  });
});

describe("filters", () => {
  it("all together are handed to the library", async () => {
    const { client, filters } = listing([]);
    const words = ["--class", "training", "--tenant", "t", "--state", "held", "--cluster", "c"];
    const { stdout } = await run(["list", ...words, "-a", "-n", "5"], { client });
    expect(stdout).toBe("no jobs\n");
    expect(filters).toEqual([
      { class: "training", tenant: "t", state: "held", cluster: "c", all: true, limit: 5 },
    ]);
  });

  it.each<[readonly string[], JobFilter]>([
    [["--state", "pending,held"], { state: ["pending", "held"] }],
    [["--user", "ada"], { user: "ada" }],
    [["--me"], { isMine: true }],
    [["-l", "team=vision", "--label", "sweep"], { labels: ["team=vision", "sweep"] }],
    [["--name", "probe-*"], { name: "probe-*" }],
    [["--gpu-type", "H100"], { gpuType: "H100" }],
    [["--older-than", "2m"], { submittedBeforeMs: NOW_MS - 120_000 }],
    [["--newer-than", "1h"], { submittedAfterMs: 0 }],
  ])("%j becomes %j", async (words, wantFilter) => {
    const { code, filters } = await list(...words);
    expect(code).toBe(0);
    expect(filters).toEqual([{ ...wantFilter, limit: 100 }]);
  });

  it.each([
    [["--state", "runing"], /"runing" is not a state/],
    [["--me", "--user", "ada"], /--me and --user/],
    [["--older-than", "soon"], /--older-than soon: .*30s/],
    [["--columns", "jobb"], /"jobb" is no column of jobs. Did you mean job\?/],
    [["--sort", "-colour"], /no column of jobs. Use job, name/],
    [["--watch", "-o", "csv"], /--watch redraws/],
  ])("%j is refused before anything is asked", async (words, wantError) => {
    const { code, stderr, filters } = await list(...words);
    expect({ code, filters }).toEqual({ code: 2, filters: [] });
    expect(stderr).toMatch(wantError);
  });
});

describe("columns and order", () => {
  it("a program that reads the table gets every id whole", async () => {
    const { stdout } = await list();
    expect(stdout).toContain(`${LONG} `);
  });

  it("--wide cuts nothing on a terminal either, and shows names, users, labels and ages", async () => {
    const { client } = listing();
    const outside = { client, nowMs: NOW_MS, isTerminal: true, env: { NO_COLOR: "1" } };
    const { stdout } = await run(["list", "--wide"], outside);
    const [head = "", first, second, third] = stdout.split("\n");
    expect(head).toMatch(/^JOB +NAME +USER +CLASS +TENANT +PRIORITY +STATE +GPUS +TYPE +WHERE/);
    expect(first).toContain(LONG);
    expect(second).toMatch(/ada .* 2h00m/);
    expect(third).toMatch(/ sweep=7,team=vision$/);
    expect((await run(["list"], outside)).stdout).not.toContain(LONG);
  });

  it("are those that were asked for", async () => {
    const { stdout } = await list("--columns", "gpus,user,age", "--sort", "-age");
    expect(stdout).toBe(
      "GPUS  USER    AGE\n   8  ada   2h00m\n   2        1m30s\n  64        1m30s\n",
    );
  });

  it.each([
    ["gpus", [LONG, "b", "c"]],
    ["-gpus", ["c", "b", LONG]],
    ["priority", ["c", LONG, "b"]],
    ["-priority", [LONG, "c", "b"]],
    ["user", ["b", LONG, "c"]],
  ])(
    "--sort %s sorts all jobs before the limit, those without a value last",
    async (sort, wantIds) => {
      const { stdout, filters } = await list("--sort", sort, "-o", "name");
      expect(stdout.trimEnd().split("\n")).toEqual(wantIds);
      expect(filters).toEqual([{}]);
      const first = await list("--sort", sort, "-n", "1", "-o", "name");
      expect(first.stdout).toBe(`${String(wantIds[0])}\n`);
    },
  );
});

describe("forms", () => {
  const document = { jobs: JSON.parse(JSON.stringify(JOBS)) as unknown };

  it.each([[["--json"]], [["-o", "json"]], [["--output=json"]]])("%j is JSON", async (words) => {
    expect(JSON.parse((await list(...words)).stdout)).toEqual(document);
  });

  it("-o yaml is the same document", async () => {
    expect(parse((await list("-o", "yaml")).stdout)).toEqual(document);
  });

  it("-o csv is read back by our own reader, with plain numbers and quoted commas", async () => {
    const { stdout } = await list("-o", "csv", "--columns", "job,name,gpus,age,state");
    const { header, rows, badRows } = readCsv(stdout);
    expect(badRows).toEqual([]);
    expect(header).toEqual(["job", "name", "gpus", "age", "state"]);
    expect(rows.map(({ cells }) => cells)).toEqual([
      [LONG, "", "2", "90", "running"],
      ["b", "b, the second", "8", "7200", "pending"],
      ["c", "", "64", "90", "pending"],
    ]);
  });

  it("-o name of no jobs is empty, not a sentence", async () => {
    const { client } = listing([]);
    expect((await run(["list", "-o", "name"], { client })).stdout).toBe("");
  });
});
