/** @file Single rows of each trace format: what becomes of them, and what is said of those that cannot be read. */
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { problemText } from "../../domain/values/problem.ts";
import {
  readTrace,
  TRACE_FORMATS,
  traceFormatOf,
  type TraceFormat,
} from "../../simulator/readers/read-trace.ts";
import type { WorkloadJob } from "../../simulator/workload.ts";

const PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster";
const OPENB =
  "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time";
const SLICE =
  "job_id,user,tenant,class,submit_time,num_chips,chip_type,num_nodes,duration_s,walltime_limit_s,final_status";
const HELIOS =
  "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue";
const SIA = "name,time,application,num_replicas,batch_size";
const PAI = "name,time,category,application";
const LM = "LM (batch size 80)\tcd x && python3 y\t--steps\t1\t28240\t5.5\t1";

function read(text: string, format?: TraceFormat): readonly WorkloadJob[] {
  const trace = readTrace(text, { source: "t.csv", ...(format !== undefined && { format }) });
  if (trace.kind !== "jobs") throw new Error(JSON.stringify(trace));
  return trace.jobs;
}

/** Everything that is said of bad rows, whether or not there are good ones. */
function complaints(text: string): readonly string[] {
  const trace = readTrace(text, { source: "t.csv" });
  const problems = trace.kind === "refused" ? trace.problems : trace.account.badRows;
  return problems.map((problem) => problemText("t.csv", problem));
}

describe("a row becomes a job", () => {
  it.each([
    [
      "Philly",
      `${PHILLY}\n2017-10-27 00:23:25,27.0,2,54.0,11cb48`,
      { id: "philly-0", durationMs: 27_000, gpus: 2, class: "training", tenant: "11cb48" },
    ],
    [
      "openb: run time from schedule to end, a share is a GPU, types are a choice",
      `${OPENB}\np1,1,1,1,460,V100M16|V100M32,LS,Running,100,400,160`,
      {
        id: "p1",
        durationMs: 240_000,
        gpus: 1,
        class: "inference",
        tenant: "openb",
        constraints: { gpuTypes: ["V100M16", "V100M32"] },
      },
    ],
    [
      "openb: never scheduled",
      `${OPENB}\np1,1,1,8,1000,,BE,Pending,100,400,`,
      { id: "p1", durationMs: 300_000, gpus: 8, class: "training", tenant: "openb" },
    ],
    [
      "Helios, the slice",
      `# licence\n${SLICE}\n7,u,vcvGl,finetune,5835000000,128,,16,24.0,24.0,CANCELED`,
      { id: "helios-7", durationMs: 24_000, gpus: 128, class: "training", tenant: "vcvGl" },
    ],
    [
      "Helios, the original",
      `${HELIOS}\n7,u,vc6YE,8,32,1,COMPLETED,2020-04-01 00:00:05,2020-04-01 00:00:06,2020-04-01 00:01:06,60,1`,
      { id: "helios-7", durationMs: 60_000, gpus: 8, class: "training", tenant: "vc6YE" },
    ],
    [
      "Gavel: steps by the measured steps a second",
      LM,
      { id: "gavel-1", durationMs: 1_000_000, gpus: 1, class: "training", tenant: "gavel" },
    ],
    [
      "Gavel, ten columns, a count that was not measured",
      "CycleGAN\tx\t/w\t-n\t1\t4426\t2\t1.0\t-1\t77.0",
      { id: "gavel-1", durationMs: 500_000, gpus: 2, class: "training", tenant: "gavel" },
    ],
    [
      "Sia with a duration of its own",
      `${SIA},duration\ncifar10-0,5,cifar10,4,2048,90`,
      { id: "cifar10-0", durationMs: 90_000, gpus: 4, class: "training", tenant: "sia" },
    ],
    [
      "PAI with a size of its own",
      `${PAI},num_gpus,duration\na-0,1,BatchInferenceJob,new_model,2,90`,
      { id: "a-0", durationMs: 90_000, gpus: 2, class: "inference", tenant: "BatchInferenceJob" },
    ],
    [
      "plain CSV with all that it may have",
      "submit_time,duration,gpus,class,tenant,name,estimate,min_gpus,priority\n3,60,8,Inference,a b,n 1,120,4,7",
      {
        id: "n-1",
        durationMs: 60_000,
        gpus: 8,
        class: "inference",
        tenant: "a-b",
        estimateMs: 120_000,
        minGpus: 4,
        priority: 7,
      },
    ],
  ])("%s", (_name, text, wantJob) => {
    expect(read(text)).toEqual([{ ...wantJob, submittedAtMs: 0 }]);
  });
});

describe("the same job comes from", () => {
  const want = read(`${OPENB}\np1,1,1,2,1000,,LS,Running,100,400,160`);
  it.each([
    [
      "reordered columns",
      "scheduled_time,qos,deletion_time,num_gpu,creation_time,name\n160,LS,400,2,100,p1",
    ],
    ["further columns", `${OPENB},zone,owner\np1,1,1,2,1000,,LS,Running,100,400,160,z,o`],
    [
      "Windows line ends and a byte-order mark",
      `\ufeff${OPENB}\r\np1,1,1,2,1000,,LS,Running,100,400,160\r\n`,
    ],
    ["quotes and blanks", `${OPENB}\n\n"p1", 1,1,"2",1000,"",LS,Running, 100 ,400,160\n\n`],
    ["headings in capitals", `${OPENB.toUpperCase()}\np1,1,1,2,1000,,LS,Running,100,400,160`],
    ["fractions that are whole", `${OPENB}\np1,1,1,2.0,1000.0,,LS,Running,100.0,400.0,160.0`],
  ])("%s", (_name, text) => {
    expect(read(text)).toEqual(want);
  });
});

describe("a bad row is named with its line, its value and what would be right", () => {
  it.each([
    [`${PHILLY}\n2017-02-30 00:00:00,1,1,1,a`, "t.csv:2: row 0 was submitted at"],
    [`${PHILLY}\n2017-10-27 00:00:00,-5,1,1,a`, 'has the duration "-5"'],
    [`${PHILLY}\n2017-10-27 00:00:00,5,0,1,a`, 'asks for "0" GPUs'],
    [`${OPENB}\np,1,1,1,1000,,LS,Running,400,100,`, 'deletion_time is "100"; write seconds'],
    [`${OPENB}\np,1,1,1,1000,,LS,Running,100,400,500`, "scheduled at 500 and deleted at 400"],
    [`${OPENB}\np,1,1,-1,1000,,LS,Running,100,400,200`, 'asks for "-1" GPUs'],
    [`${OPENB}\np,1,1,1,full,,LS,Running,100,400,200`, 'gpu_milli is "full"'],
    [`${OPENB}\np,1,1,1,1000`, "the row has 5 cells and needs 11"],
    [`${SLICE}\n7,u,v,c,yesterday,8,,1,24,24,OK`, 'submitted at "yesterday"'],
    [`${SLICE}\n7,u,v,c,5,8,,1,nan,24,OK`, 'the duration is "nan"'],
    [`${SLICE}\n7,u,v,c,5,1.5,,1,24,24,OK`, 'asks for "1.5" GPUs'],
    [`${SIA}\na,5,doom,4,1`, 'application is "doom"; write one of cifar10'],
    [`${SIA}\na,-5,bert,4,1`, 'time is "-5"'],
    [`${SIA}\na,5,bert,0,1`, 'asks for "0" GPUs'],
    [`${PAI}\na,5,SiaJob,doom`, 'application is "doom"'],
    [LM.replace("28240", "many"), "is that of no known trace"],
    [`${LM}\n${LM.replace("28240", "-1")}`, 't.csv:2: the number of steps is "-1"'],
    [`${LM}\n${LM.replace("LM (", "LLM (")}`, "has no measured throughput"],
    [`${LM}\nLM\t1`, "the row has 2 tab-separated cells; write 7 or 10"],
    [`submit_time,duration,gpus,class\n0,1,1,batch`, 'the class is "batch"'],
    [`submit_time,duration,gpus\n0,1e300,1`, "check the unit of its times"],
    [`submit_time,duration,gpus\n0,1,0x10`, 'asks for "0x10" GPUs'],
  ])("%s", (text, wantText) => {
    expect(complaints(text).join("\n")).toContain(wantText);
  });

  it("among good ones it stops none of them", () => {
    const text = `${SIA}\nncf-0,1,ncf,1,1\nncf-1,x,ncf,1,1\nncf-2,3,ncf,1,1`;
    const trace = readTrace(text, { source: "t.csv" });
    expect(trace).toMatchObject({
      kind: "jobs",
      jobs: [{ id: "ncf-0" }, { id: "ncf-2", submittedAtMs: 2_000 }],
      account: { rows: 3, badRows: [{ line: 3 }] },
    });
  });
});

describe("a text that is no trace is refused", () => {
  it.each([
    ["nothing", "", "the text is empty"],
    ["a header alone", PHILLY, "none of 0 rows"],
    ["an openb header alone", OPENB, "there is no row"],
    ["tasks without GPUs alone", `${OPENB}\np,1,1,0,0,,LS,R,1,2,1`, "1 tasks without a GPU"],
    ["machines", "sn,cpu_milli,memory_mib,gpu,model\na,1,1,2,T4", "a list of machines"],
    ["another header", "a,b,c\n1,2,3", 'the first line "a,b,c" is that of no known trace'],
    ["a column twice", `${SIA},time\na,1,bert,1,1,2`, "the header names time twice"],
  ])("%s", (_name, text, wantText) => {
    expect(complaints(text).join("\n")).toContain(wantText);
  });

  it("when the format is named and a column of it is missing, with that column", () => {
    const trace = readTrace("a,b\n1,2", { source: "t.csv", format: "openb" });
    expect(trace).toMatchObject({
      kind: "refused",
      problems: [{ line: 1, remedy: "name it num_gpu or num_gpus" }, {}, {}],
    });
  });
});

it.each([
  ["philly", PHILLY],
  ["openb", OPENB],
  ["helios", SLICE],
  ["helios", HELIOS],
  [
    "helios-load",
    "time,running_job_num,pending_job_num,running_gpu_num,pending_gpu_num,idle_gpu_num",
  ],
  ["sia", SIA],
  ["pai", PAI],
  ["gavel", LM],
  ["csv", "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"],
  [undefined, "x,y"],
])("%s is known by its first line", (wantFormat, text) => {
  expect(traceFormatOf(text)).toBe(wantFormat);
});

it("jobs of one name stay apart", () => {
  const jobs = read(`${SLICE}\n7,u,v,c,0,1,,1,5,5,OK\n7,u,v,c,1000000,1,,1,5,5,OK`);
  expect(jobs.map(({ id }) => id)).toEqual(["helios-7", "helios-7~2"]);
});

it("run times of one application are spread over its class of GPU time, evenly on a log scale", () => {
  const rows = Array.from(
    { length: 1_000 },
    (_, at) => `a-${String(at)},${String(at)},yolov3,4,64`,
  );
  const hours = read([SIA, ...rows].join("\n"))
    .map(({ gpus, durationMs }) => (gpus * durationMs) / 3_600_000)
    .sort((a, b) => a - b);
  expect(hours[0]).toBeGreaterThanOrEqual(10);
  expect(hours[999]).toBeLessThanOrEqual(100);
  expect(hours[500]).toBeCloseTo(Math.sqrt(1_000), 0);
});

it("no text whatsoever makes a reader throw, and every row is accounted for", () => {
  const cell = fc.oneof(fc.string({ maxLength: 8 }), fc.integer().map(String), fc.constant(""));
  const header = fc.constantFrom(PHILLY, OPENB, SLICE, HELIOS, SIA, PAI, "x");
  const body = fc.array(fc.array(cell, { maxLength: 12 }).map((cells) => cells.join(",")));
  fc.assert(
    fc.property(
      header,
      body,
      fc.constantFrom(undefined, ...TRACE_FORMATS),
      (head, rows, format) => {
        const trace = readTrace([head, ...rows].join("\n"), {
          source: "t",
          ...(format !== undefined && { format }),
        });
        if (trace.kind === "refused") expect(trace.problems.length).toBeGreaterThan(0);
        if (trace.kind !== "jobs") return;
        const leftOut = trace.account.leftOut.reduce((sum, { count }) => sum + count, 0);
        expect(trace.account.rows).toBe(trace.jobs.length + trace.account.badRows.length + leftOut);
      },
    ),
  );
});
