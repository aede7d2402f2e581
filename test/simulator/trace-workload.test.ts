/** @file A trace as a workload: cut, fitted to a fleet, brought to a load; and a machine list as a fleet. */
import { describe, expect, it, test } from "vitest";
import { fleetOf } from "../../simulator/paper-fleet.ts";
import { nodeFleet } from "../../simulator/readers/node-fleet.ts";
import { readNodes } from "../../simulator/readers/nodes.ts";
import { readTrace } from "../../simulator/readers/read-trace.ts";
import { traceWorkload } from "../../simulator/readers/trace-workload.ts";
import type { TraceJobs } from "../../simulator/readers/trace.ts";

const FLEET = fleetOf([16, 8]);

function traceOf(...rows: readonly string[]): TraceJobs {
  const text = ["submit_time,duration,gpus,tenant", ...rows].join("\n");
  const trace = readTrace(text, { source: "t.csv" });
  if (trace.kind !== "jobs") throw new Error(JSON.stringify(trace));
  return trace;
}

const TRACE = traceOf("10,100,4,b", "20,60,8,a", "70,30,20,b", "110,40,64,a", "x,1,1,a");

describe("a workload of a trace", () => {
  const workload = traceWorkload(TRACE, { name: "w", fleet: FLEET });

  it("keeps each job in one cluster where one is large enough, and leaves out what is larger than the fleet", () => {
    expect(workload.jobs.map(({ gpus, constraints }) => [gpus, constraints?.maxClusters])).toEqual([
      [4, 1],
      [8, 1],
      [20, undefined],
    ]);
    expect(workload.notes).toContain("1 jobs larger than the fleet left out");
    expect(workload.notes).toContain("1 rows could not be read");
  });

  it("has its tenants, each of weight 1 and without a quota", () => {
    expect(workload.tenants).toEqual(
      ["a", "b"].map((id) => ({ id, weight: 1, quota: {}, borrowingLimit: 0 })),
    );
  });

  it("is the trace's own in time when no load is asked for", () => {
    expect(workload.jobs.map(({ submittedAtMs }) => submittedAtMs)).toEqual([0, 10_000, 60_000]);
  });

  it.each([0.1, 0.2, 0.3])("offers the load %f when asked to, with the same jobs", (load) => {
    const { jobs } = traceWorkload(TRACE, { name: "w", fleet: FLEET, load });
    const lastMs = jobs.at(-1)?.submittedAtMs ?? 0;
    const gpuMs = jobs.reduce(
      (sum, { gpus, durationMs, submittedAtMs }) =>
        sum + gpus * Math.min(durationMs, lastMs - submittedAtMs),
      0,
    );
    expect(gpuMs / (24 * lastMs)).toBeCloseTo(load, 3);
    expect(jobs.map(({ durationMs }) => durationMs)).toEqual(
      workload.jobs.map(({ durationMs }) => durationMs),
    );
  });

  it("has all its jobs at once when they are too few for the load", () => {
    const { jobs } = traceWorkload(TRACE, { name: "w", fleet: FLEET, load: 9 });
    expect(jobs.map(({ submittedAtMs }) => submittedAtMs)).toEqual([0, 0, 0]);
  });

  it("is cut to its first jobs when asked to", () => {
    const { jobs, notes } = traceWorkload(TRACE, { name: "w", fleet: FLEET, jobs: 2 });
    expect(jobs).toHaveLength(2);
    expect(notes).toContain("the first 2 of 4 jobs");
  });

  it("of jobs that all come at once has no other load than its own", () => {
    const atOnce = traceOf("5,10,1,a", "5,10,1,a");
    const { jobs } = traceWorkload(atOnce, { name: "w", fleet: FLEET, load: 0.9 });
    expect(jobs.map(({ submittedAtMs }) => submittedAtMs)).toEqual([0, 0]);
  });
});

test("GPU types that the fleet has are kept, others let the job run anywhere and are counted", () => {
  const text = [
    "name,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time,scheduled_time",
    "a,1,1000,h100|T4,LS,0,10,0",
    "b,1,1000,G2,LS,1,10,1",
  ].join("\n");
  const trace = readTrace(text, { source: "t.csv" });
  if (trace.kind !== "jobs") throw new Error("no jobs");
  const { jobs, notes } = traceWorkload(trace, { name: "w", fleet: FLEET });
  expect(jobs.map(({ constraints }) => constraints)).toEqual([
    { maxClusters: 1, gpuTypes: ["H100"] },
    { maxClusters: 1 },
  ]);
  expect(notes).toContain("1 jobs wanted GPU types that the fleet does not have; they take any");
});

describe("a machine list", () => {
  const list = (text: string) => readNodes(text, { source: "n.csv" });

  it("becomes hosts of one cluster, four to a rack, with what is known of their GPUs", () => {
    const nodes = list(
      `sn,gpu,model\n${["a", "b", "c", "d", "e"].map((n) => `${n},2,T4`).join("\n")}`,
    );
    if (nodes.kind !== "nodes") throw new Error("no nodes");
    const [cluster] = nodeFleet(nodes.nodes).clusters;
    expect(cluster?.hosts.map(({ id, rack }) => [id, rack])).toEqual([
      ["trace/a", "r0"],
      ["trace/b", "r0"],
      ["trace/c", "r0"],
      ["trace/d", "r0"],
      ["trace/e", "r1"],
    ]);
    expect(cluster?.hosts[0]).toMatchObject({ gpuType: "T4", gpuCount: 2, gpuMemoryGiB: 16 });
  });

  it("names rows that are wrong and counts machines without GPUs", () => {
    const nodes = list(
      "machine,cap_gpu,gpu_type\na,8,V100\nb,0,CPU\nc,x,V100\na,8,V100\nd,64,V100",
    );
    expect(nodes).toMatchObject({
      kind: "nodes",
      nodes: [{ name: "a" }],
      account: {
        rows: 5,
        badRows: [{ line: 4 }, { line: 5, message: "machine a is there twice" }, { line: 6 }],
        leftOut: [{ count: 1 }],
      },
    });
  });

  it("without a single GPU is refused", () => {
    expect(list("sn,gpu\na,0")).toMatchObject({ kind: "refused" });
  });
});
