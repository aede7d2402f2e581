/** @file A job's page, from the recorded histories of jobs: what happened and when, each run, and what was lost. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { msOf } from "../../console/follow/workflow-task.ts";
import { jobRecords } from "../../console/history/job-records.ts";
import { createJobLife, type JobFact } from "../../console/job/job-life.ts";
import { createJobReader } from "../../console/job/job-reader.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import type { Grant } from "../../protocol/job.ts";
import { phasesOf } from "../../page/job-phases.ts";
import type { JobPage, MomentKind } from "../../page/job-wire.ts";
import { renderView, textsOf } from "../support/page-view.ts";
import { createConverters } from "../../workers/codec/converters.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
const files = readdirSync(FOLDER).filter((file) => /^job\..*\.json$/.test(file));
const codecs = createConverters().worker.payloadCodecs ?? [];

/** Somebody without a key told these jobs of grants. */
const FORGED: ReadonlySet<string> = new Set([
  "job.array-signed.json",
  "job.forged-words.json",
  "job.granted-falsely.json",
]);
const isForged = ({ lease }: { readonly lease?: Partial<Grant["lease"]> }): boolean =>
  lease?.grantedAtMs === undefined;

async function pageOf(name: string): Promise<JobPage> {
  const history = historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, name), "utf8")));
  const life = createJobLife("job");
  const reader = createJobReader(codecs);
  for (const event of history.events ?? []) {
    const fact = await reader.read(event);
    if (fact === undefined) continue;
    // As the page's reader has it: a forged grant has no row.
    if (FORGED.has(name) && fact.kind === "granted" && fact.grants.some(isForged)) continue;
    life.fold(fact, msOf(event.eventTime));
  }
  return life.page();
}

const grantOf = (id: string, hosts: number): Grant =>
  ({
    reason: "best found",
    lease: {
      id,
      grantedAtMs: 0,
      gpus: Array.from({ length: hosts }, (_, at) => ({ host: `eu/${at}`, mask: 255 })),
    },
  }) as unknown as Grant;
const orderOf = (leaseId: string, host: string): RunOrder =>
  ({ leaseId, host, gang: [{ host }] }) as unknown as RunOrder;
const reportOf = (host: string): RunReport =>
  ({
    ...{ host, hasStarted: true, startedAtMs: 1_000, endedAtMs: 4_000, ranks: [] },
    end: "completed",
  }) as unknown as RunReport;

const kindsOf = ({ moments }: JobPage): readonly MomentKind[] => moments.map(({ kind }) => kind);

describe("a job's page in a browser", () => {
  it("shows a job whose hosts were told to start it as launched until they report, not as preparing", () => {
    const moment = (kind: MomentKind, atMs: number) => ({ kind, atMs, text: "" });
    const moments = [
      ...[moment("submitted", 0), moment("granted", 1), moment("starting", 2)],
      ...[moment("running", 3), moment("stopped", 4), moment("waiting", 5)],
      ...[moment("granted", 6), moment("starting", 8)],
    ];
    const page = { job: "job", moments, omitted: 0, attempts: [] };
    const spansOf = (count: number) =>
      phasesOf({ ...page, moments: moments.slice(0, count) }, 10).map(({ phase, fromMs, toMs }) => [
        phase,
        fromMs,
        toMs,
      ]);
    const first = [
      ...[
        ["waiting", 0, 1],
        ["preparing", 1, 3],
        ["running", 3, 4],
        ["waiting", 4, 6],
      ],
    ];
    expect(spansOf(8)).toEqual([...first, ["preparing", 6, 8], ["launched", 8, 10]]);
    expect(spansOf(7)).toEqual([...first, ["preparing", 6, 10]]);
    expect(spansOf(3)).toEqual([
      ["waiting", 0, 1],
      ["preparing", 1, 2],
      ["launched", 2, 10],
    ]);
  });

  it("shows phases without a gap, each run's GPUs, and every moment", async () => {
    const page = await pageOf("job.preempted.json");
    const spans = phasesOf(page, 0);
    expect(spans.map(({ phase }) => phase)).toEqual([
      ...["waiting", "preparing", "running", "stopping", "waiting"],
      ...["preparing", "running", "waiting"],
    ]);
    for (const [at, { toMs }] of spans.entries())
      expect(toMs).toBe(spans[at + 1]?.fromMs ?? page.ended?.atMs);
    const runs = await renderView("views/job-life.ts", "Attempts", { page });
    expect(textsOf(runs, "h3")).toEqual([
      "lease-3: 8 GPUs, completed, ran 11s",
      "lease-1: 8 GPUs, stopped, ran 0s",
    ]);
    // Two hosts a run with four GPUs of eight each.
    expect(runs.filter(({ props }) => props["class"] === "in").length).toBe(16);
    expect(runs.filter(({ props }) => props["class"] === "out").length).toBe(16);
    const lines = await renderView("views/job-life.ts", "Timeline", page);
    expect(textsOf(lines, "li").length).toBe(page.moments.length);
  });

  it("shows expected beside measured bandwidth", async () => {
    const life = createJobLife("job");
    const page: JobPage = {
      ...life.page(),
      attempts: [
        {
          lease: "lease-1",
          grantedAtMs: 0,
          gpus: [["eu/a", 255]],
          reason: "best found",
          extras: [{ part: "plan", text: "DP 2 × PP 4" }],
          predictedGbs: 200,
          measuredGbs: 100,
        },
      ],
    };
    const shown = await renderView("views/job-life.ts", "Attempts", { page });
    const widths = shown.flatMap(({ props }) =>
      String(props["class"]).startsWith("bar-") ? props["width"] : [],
    );
    expect(widths).toEqual(["100%", "50%"]);
    expect(textsOf(shown, "dd")).toContain("DP 2 × PP 4");
  });
});

describe("a job's page", () => {
  it.each(files)("tells %s in the order of time, from its submission to its end", async (file) => {
    const page = await pageOf(file);
    const kinds = kindsOf(page);
    expect(kinds[0]).toBe("submitted");
    expect(kinds.at(-1)).toBe("ended");
    expect(page.ended).toBeDefined();
    expect(page.about?.gpus).toBeGreaterThan(0);
    const times = page.moments.map(({ atMs }) => atMs);
    expect(times).toEqual([...times].sort((one, other) => one - other));
    for (const { grantedAtMs, startedAtMs = grantedAtMs, endedAtMs } of page.attempts)
      if (endedAtMs !== undefined) {
        expect(startedAtMs).toBeGreaterThanOrEqual(grantedAtMs);
        expect(endedAtMs).toBeGreaterThanOrEqual(startedAtMs);
      }
  });

  it("tells for whom a job was preempted, its checkpoint and the work lost", async () => {
    const page = await pageOf("job.preempted.json");
    expect(kindsOf(page)).toEqual([
      ...["submitted", "granted", "starting", "running", "preempted", "stopping", "checkpoint"],
      ...["stopped", "waiting", "granted", "starting", "running", "stopped", "ended"],
    ]);
    const [first, second] = page.attempts;
    expect(first).toMatchObject({ lease: "lease-1", end: "stopped" });
    // 8 GPUs for 29 ms after the checkpoint, on the host that ended last.
    expect(first?.lostGpuSeconds).toBeCloseTo(0.232, 3);
    expect(first?.checkpoint).toMatch(/step-8$/);
    expect(second).toMatchObject({ lease: "lease-3", end: "completed" });
    expect(second?.lostGpuSeconds).toBeUndefined();
    const preempted = page.moments.find(({ kind }) => kind === "preempted");
    expect(preempted?.text).toMatch(/^lease-1: room for answers-/);
  });

  it("tells why a job waited and why one failed", async () => {
    const waited = await pageOf("job.waited.json");
    expect(waited.moments.find(({ kind }) => kind === "waiting")?.text).toMatch(
      /^WaitingForGpus: /,
    );
    const failed = await pageOf("job.gang-failed.json");
    expect(failed.ended?.how).toBe("failed");
    expect(failed.attempts[0]?.end).toBe("failed");
    expect(failed.attempts[0]?.cause).toMatch(/^[A-Z_]+ on alpha\//);
  });

  it("tells what was made for a run", async () => {
    const { attempts } = await pageOf("job.launch-extras.json");
    expect(attempts[0]?.extras.map(({ part }) => part)).toEqual(["collectives"]);
  });

  it("ends a run by the reports of its other hosts where one died, and calls it failed", () => {
    const life = createJobLife("job");
    life.fold({ kind: "granted", grants: [grantOf("lease-1", 2)] }, 0);
    for (const host of ["eu/0", "eu/1"])
      life.fold({ kind: "launched", order: orderOf("lease-1", host) }, 0);
    life.fold({ kind: "ran", order: orderOf("lease-1", "eu/0"), report: reportOf("eu/0") }, 5_000);
    expect(life.page().attempts[0]?.end).toBeUndefined();
    life.fold({ kind: "unreported", order: orderOf("lease-1", "eu/1") }, 60_000);
    expect(life.page().attempts[0]).toMatchObject({
      ...{ end: "failed", startedAtMs: 1_000, endedAtMs: 4_000 },
      lostGpuSeconds: 2 * 8 * 3,
    });
  });

  it("knows no end of a run that nobody reported, and keeps no record of it", () => {
    const life = createJobLife("job");
    life.fold({ kind: "granted", grants: [grantOf("lease-1", 1), grantOf("lease-2", 1)] }, 0);
    life.fold({ kind: "launched", order: orderOf("lease-1", "eu/0") }, 0);
    life.fold({ kind: "ended", how: "terminated", why: "" }, 9_000);
    expect(life.page().attempts[0]).toMatchObject({ isUnreported: true });
    expect(jobRecords(life.page()).runs.map(({ lease }) => lease)).toEqual(["lease-2"]);
  });

  it("counts every host of a very large gang", () => {
    const life = createJobLife("job");
    life.fold({ kind: "granted", grants: [grantOf("lease-1", 600)] }, 0);
    for (let at = 0; at < 600; at += 1) {
      const host = `eu/${at}`;
      life.fold({ kind: "ran", order: orderOf("lease-1", host), report: reportOf(host) }, 5_000);
    }
    expect(life.page().attempts[0]?.end).toBe("completed");
  });

  it("loses the tasks of an array's lease that did not complete, and no others", () => {
    const life = createJobLife("job");
    life.fold({ kind: "granted", grants: [grantOf("lease-1", 1)] }, 0);
    const batch = (seq: number, tasks: RunReport["tasks"]): void =>
      life.fold(
        {
          kind: "ran",
          order: {
            ...orderOf("lease-1", "eu/0"),
            taskBatch: { seq, tasks: [0, 1], slots: 2, gpusPerTask: 4, count: 4 },
          },
          report: { ...reportOf("eu/0"), end: seq === 1 ? "completed" : "stopped", tasks },
        } as JobFact,
        5_000,
      );
    batch(1, [{ task: 0, end: "completed", startedAtMs: 1_000, endedAtMs: 4_000 }]);
    batch(2, [
      { task: 1, end: "stopped", startedAtMs: 2_000, endedAtMs: 4_000 },
      { task: 2, end: "not-run" },
    ]);
    expect(life.page().attempts[0]).toMatchObject({ end: "stopped", lostGpuSeconds: 4 * 2 });
  });

  it("takes no grant of another shape, which would fail with every page", () => {
    const life = createJobLife("job");
    const { lease } = grantOf("lease-1", 1);
    for (const grant of [
      { lease },
      { lease: { ...lease, gpus: "all" }, reason: "" },
      { lease: { ...lease, grantedAtMs: "now" }, reason: "" },
      { lease, reason: "", predictedGBs: "much" },
    ])
      expect(() =>
        life.fold({ kind: "granted", grants: [grant as unknown as Grant] }, 0),
      ).toThrow();
    expect(life.page().attempts).toEqual([]);
  });

  it("keeps the last of many leases for a page, and all of them for the books", () => {
    for (const [options, want] of [[{}, 50] as const, [{ mostAttempts: Infinity }, 80] as const]) {
      const life = createJobLife("job", options);
      for (let at = 0; at < 80; at += 1)
        life.fold({ kind: "granted", grants: [grantOf(`lease-${at}`, 1)] }, at);
      expect(life.page().attempts.length).toBe(want);
    }
  });

  it("keeps the first and the last of very many moments", () => {
    const life = createJobLife("job");
    for (let at = 0; at < 5_000; at += 1)
      life.fold({ kind: "said", as: "order", text: `line ${at}` }, at);
    const { moments, omitted } = life.page();
    expect(moments.length + omitted).toBe(5_000);
    expect(moments.length).toBeLessThanOrEqual(400);
    expect(moments[0]?.text).toBe("line 0");
    expect(moments.at(-1)?.text).toBe("line 4999");
  });
});
