/** @file What jobs measured of their collectives: the file that they write, and the words that their bandwidth model gets. */

import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { hostLayout } from "../../agent/system/state-layout.ts";
import { extrasDir } from "../../agent/folder/extra-files.ts";
import { launchFiles } from "../../agent/folder/launch-files.ts";
import type { AgentHost } from "../../agent/runs/agent-host.ts";
import { bandwidthFile, bandwidthIn, readBandwidth } from "../../agent/folder/bandwidth-file.ts";
import { stepIn } from "../../agent/folder/steps-file.ts";
import { reportMeasured } from "../../agent/telemetry/measure-report.ts";
import { crc32Text } from "../../lib/crc32.ts";
import type { RunOrder, RunReport } from "../../protocol/agent-contract.ts";
import type { MeasuredNote, SentNote, StepNote } from "../../protocol/model-messages.ts";
import {
  eventually,
  folder,
  HOST,
  orderOf,
  OTHER_HOST,
  removeFolders,
  testAgent,
} from "./fixture.ts";

afterEach(removeFolders);

const nccl = readFileSync(
  path.join(import.meta.dirname, "../fixtures/nccl-tests/coreweave-a100-all_reduce_8.txt"),
  "utf8",
);

describe("the file", () => {
  it.each([
    { name: "one number", text: "93.5\n", want: 93.5 },
    { name: "with its unit", text: "93.5 GB/s", want: 93.5 },
    { name: "the median of the last five", text: "1\n90\n91\n500\n92\n89\n", want: 91 },
    { name: "numbers among other lines", text: "step 1\n80\nstep 2\n82\n", want: 82 },
    { name: "a line that is being written", text: "80\n81\nx", want: 81 },
    { name: "of the last line's messages", text: "80 2 GiB\n10\n82 2GiB\n", want: 82 },
    { name: "an unknown collective", text: "80 2 GiB sing\n", want: undefined },
    { name: "nothing", text: "", want: undefined },
    { name: "no bandwidth", text: "0\n-5\nNaN\n1e9\n", want: undefined },
  ])("$name", ({ text, want }) => {
    expect(bandwidthIn(text)?.gbs).toBe(want);
  });

  it("skips a line too long to be a figure, without matching it", () => {
    const line = `1${" ".repeat(256 * 1024 - 2)}x`;
    expect(bandwidthIn(line)).toBeUndefined();
    expect(bandwidthIn(`80\n${line}\n`)?.gbs).toBe(80);
    expect(bandwidthIn(`1${" ".repeat(200)}`)).toBeUndefined();
  });

  it("may be the output of nccl-tests", () => {
    const { gbs, messages } = bandwidthIn(nccl) ?? {};
    expect(gbs).toBeGreaterThan(50);
    expect(gbs).toBeLessThan(500);
    expect(messages).toBeUndefined();
  });

  it("is read from its end when it is large, and not at all when it is no file", () => {
    const dir = folder();
    mkdirSync(path.dirname(bandwidthFile(dir)), { recursive: true });
    writeFileSync(bandwidthFile(dir), `${"7777777\n".repeat(40_000)}${"88\n".repeat(5)}`);
    expect(readBandwidth(nodeSystem.files, dir)).toEqual({ gbs: 88 });
    const other = folder();
    mkdirSync(path.dirname(bandwidthFile(other)), { recursive: true });
    symlinkSync(bandwidthFile(dir), bandwidthFile(other));
    expect(readBandwidth(nodeSystem.files, other)).toBeUndefined();
    expect(readBandwidth(nodeSystem.files, folder())).toBeUndefined();
  });

  it("is named in a job's environment, and what it says comes with the report", async () => {
    const { runs } = testAgent();
    const report = await runs.run(orderOf('echo 42 > "$ORBWEAVER_BANDWIDTH_FILE"'));
    expect(report).toMatchObject({ end: "completed", measuredGbs: 42 });
  });
});

describe("the file of steps", () => {
  it.each([
    { name: "after the first three", text: "900\n500\n300\n10\n11\n12\n13\n14\n", want: 12 },
    { name: "too few", text: "900\n500\n300\n10\n11\n12\n13\n", want: undefined },
    {
      name: "a line that is being written",
      text: "9\n9\n9\n10\n10\n10 ms\n10\n10\n1",
      want: 10,
    },
    { name: "no times", text: "0\n-1\nNaN\n1e99\n1e-300\nx\n".repeat(9), want: undefined },
    { name: "the last hundred", text: `${"7\n".repeat(500)}${"9\n".repeat(101)}`, want: 9 },
  ])("$name", ({ text, want }) => {
    expect(stepIn(text)).toBe(want);
  });

  it("is named in a job's environment, and what it says comes with the report", async () => {
    const { runs } = testAgent();
    const lines = "for ms in 90 50 30 20 21 22 23 24; do echo $ms; done";
    const report = await runs.run(orderOf(`${lines} > "$ORBWEAVER_STEPS_FILE"`));
    expect(report).toMatchObject({ end: "completed", stepMs: 22 });
    expect(report).not.toHaveProperty("measuredGbs");
  });
});

describe("the words", () => {
  const gang: RunOrder["gang"] = [
    { host: HOST, mask: 1, address: "" },
    { host: OTHER_HOST, mask: 3, address: "" },
  ];
  const order = { ...orderOf("true"), gang };
  const report = (measuredGbs: number): RunReport => ({
    host: HOST,
    hasStarted: true,
    endedAtMs: 0,
    ranks: [],
    end: "completed",
    measuredGbs,
  });

  function teller({
    failures = 0,
    hosts = [],
  }: {
    readonly failures?: number;
    readonly hosts?: readonly Pick<AgentHost, "id" | "layout" | "open">[];
  } = {}) {
    const closing = new AbortController();
    const told: (MeasuredNote | StepNote | SentNote)[] = [];
    let left = failures;
    const reports = reportMeasured({
      hosts,
      closing: closing.signal,
      system: {
        ...nodeSystem,
        clock: { ...nodeSystem.clock, nowMs: () => order.holder.grantedAtMs + 600_001 },
      },
      everyMs: 5,
      tellModel: (cluster, words) => {
        left -= 1;
        if (left >= 0) return Promise.reject(new Error("nobody hears"));
        expect(HOST.startsWith(`${cluster}/`)).toBe(true);
        told.push(...words);
        return Promise.resolve();
      },
    });
    const end = async (): Promise<void> => {
      closing.abort();
      await reports.done;
    };
    return { reports, told, end };
  }

  it("name the run, its GPUs and the window, and go again when nobody heard them", async () => {
    const { reports, told, end } = teller({ failures: 2 });
    reports.ended(order, report(80));
    await eventually(() => told.length > 0);
    expect(told).toMatchObject([
      { jobId: order.jobId, attempt: order.attempt, window: 1, gbs: 80 },
    ]);
    expect(told).toMatchObject([{ gpus: gang.map(({ host, mask }) => ({ host, mask })) }]);
    await end();
  });

  it.each([
    { name: "of one host", of: { ...order, gang: gang.slice(0, 1) }, said: report(80) },
    { name: "that never started", of: order, said: { ...report(80), hasStarted: false } },
  ])("are none of a run $name", async ({ of, said }) => {
    const { reports, told, end } = teller();
    reports.ended(of, said);
    reports.ended(order, report(70));
    await eventually(() => told.length > 0);
    expect(told.map((word) => "gbs" in word && word.gbs)).toEqual([70]);
    await end();
  });

  const planned = {
    ...{ model: "m 1", gpuType: "A100", plan: "DP 2", predictedMs: 12 },
    ...{ computeMs: 9, communicationMs: 1, otherMs: 0 },
  };
  const planOrder = (text: string): RunOrder => ({
    ...order,
    gang: gang.slice(0, 1),
    launchExtras: { env: {}, files: [{ name: "plan-step.json", text }] },
  });

  it("are of what a tuned gang sent, as its plugin counted it", async () => {
    const layout = hostLayout(nodeSystem.files, { stateDir: folder(), fleet: "f", id: HOST });
    const { reports, told, end } = teller({ hosts: [{ id: HOST, layout, open: new Map() }] });
    const tuned = (text: string): RunOrder => ({
      ...order,
      launchExtras: { env: {}, files: [{ name: "collectives.json", text }] },
    });
    const extras = extrasDir(launchFiles(layout.leaseDir(order.leaseId)).dir);
    mkdirSync(extras, { recursive: true });
    const body =
      "orbweaver-sent 1\nallreduce 16777216 134217727 calls 60 bytes 4026531840 timed 60 micros 90\n";
    writeFileSync(path.join(extras, "collectives.rewards.sent"), `${body}end ${crc32Text(body)}\n`);
    const quiet = {
      host: HOST,
      hasStarted: true,
      endedAtMs: 0,
      ranks: [],
      end: "completed",
    } as const;
    reports.ended(order, quiet);
    reports.ended(tuned("{}"), quiet);
    await eventually(() => told.length > 0);
    const { tenant, class: jobClass } = order.holder;
    expect(told).toMatchObject([
      { jobId: order.jobId, tenant, class: jobClass, name: order.jobName, gpus: 3 },
    ]);
    expect(told).toMatchObject([
      { sent: [{ collective: "all_reduce", bytes: 64 * 2 ** 20, share: 1 }] },
    ]);
    expect(told).toHaveLength(1);
    await end();
  });

  it("are of the step, too, where the model was planned, on one host as well", async () => {
    const { reports, told, end } = teller();
    const said = { ...report(80), stepMs: 13 };
    reports.ended({ ...order, gang: gang.slice(0, 1) }, said);
    reports.ended(planOrder("no JSON"), said);
    reports.ended(planOrder(JSON.stringify({ ...planned, more: "x" })), said);
    reports.ended(planOrder(JSON.stringify(planned)), { ...said, hasStarted: false });
    await eventually(() => told.length > 0);
    expect(told).toMatchObject([{ jobId: order.jobId, planned, measuredMs: 13 }]);
    expect(told).toHaveLength(1);
    await end();
  });
});
