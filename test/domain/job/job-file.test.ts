/** @file Job files: what a right one means, and what is said about a wrong one. */

import { describe, expect, it } from "vitest";
import { parseJobFile, parseJobYaml } from "../../../domain/job/job-file.ts";
import { requestBytes } from "../../../domain/lease/job-size.ts";
import { FULL_JOB, problemsOf, SMALL_JOB, specOf } from "../job-text.ts";

describe("a right job file", () => {
  it("becomes a spec with every quantity in one unit", () => {
    const parsed = parseJobFile(FULL_JOB);
    expect(parsed).toEqual({
      kind: "parsed",
      notices: [],
      idempotencyKey: "resnet50-seed7",
      spec: {
        name: "resnet50",
        tenant: "research",
        class: "training",
        priority: 5,
        gang: { gpus: 8, min: 8, timeoutMs: 60_000, shapes: [] },
        constraints: {
          jurisdictions: ["EU"],
          clusters: ["eu-1", "eu-2"],
          hosts: ["eu-1/h100-1", "eu-2/h100-1"],
          gpuTypes: ["H100", "MI300X"],
          gpuMemoryGiB: 80,
          maxClusters: 1,
          isSameHost: true,
          isSameFabric: false,
          antiAffinity: "trainer",
          prefer: "latency",
          messages: { collective: "all_gather", bytes: 2 ** 28 },
        },
        model: "gpt2-large",
        batch: 512,
        run: {
          command: ["python", "train.py", ""],
          env: { EPOCHS: "10" },
          workdir: "/home/me",
          launch: "per-host",
          checkpoint: {
            order: { kind: "signal", signal: "SIGUSR1" },
            dir: "/shared/ckpt",
            graceMs: 120_000,
            intervalMs: 600_000,
          },
          graceMs: 20_000,
        },
        retry: { attempts: 3, backoffMs: 5_000 },
        deadlineMs: 7_200_000,
        timeLimitMs: 3_600_000,
        preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: 600_000 },
        after: [{ job: "prepare-1", on: "end" }],
        mayFollowFailure: true,
        isHeld: true,
        array: { count: 1000, parallel: 50 },
      },
    });
  });

  it("has its smaller shapes in order, and as its smallest gang the least of them", () => {
    const gang = { gpus: 8, timeout: "1m", shapes: [2, 8, 4] };
    expect(specOf({ ...SMALL_JOB, gang }).gang).toEqual({
      gpus: 8,
      min: 2,
      timeoutMs: 60_000,
      shapes: [4, 2],
    });
  });

  it.each([
    [{ count: 3 }, { count: 3, parallel: 3 }],
    [
      { count: 3, parallel: 2 },
      { count: 3, parallel: 2 },
    ],
    [
      { count: 1, parallel: 9 },
      { count: 1, parallel: 1 },
    ],
  ])("an array of %j runs as many tasks at once as it says, at most all", (array, want) => {
    expect(specOf({ ...SMALL_JOB, array }).array).toEqual(want);
  });

  it("needs to say little: the rest has defaults, and what is absent stays absent", () => {
    expect(parseJobFile(SMALL_JOB)).toEqual({
      kind: "parsed",
      notices: [],
      spec: {
        name: "small",
        tenant: "default",
        class: "training",
        priority: 0,
        gang: { gpus: 1, min: 1, timeoutMs: 30_000 },
        constraints: { isSameHost: false, isSameFabric: false },
        run: { command: ["true"], env: {}, launch: "per-gpu", graceMs: 30_000 },
        retry: { attempts: 1, backoffMs: 10_000 },
        isHeld: false,
      },
    });
  });

  it("says the same as YAML and as JSON", () => {
    const yaml = parseJobYaml(JSON.stringify(FULL_JOB, null, 2), { file: "job.yaml" });
    expect(yaml).toEqual(parseJobFile(FULL_JOB));
  });

  it.each([
    ["training", 30_000],
    ["inference", 5_000],
    ["interactive", 5_000],
  ])("a gang of class %s waits %d ms for its full size", (jobClass, wantMs) => {
    expect(specOf({ ...SMALL_JOB, class: jobClass }).gang.timeoutMs).toBe(wantMs);
  });

  it.each([
    [8, { gpus: 8, min: 8 }],
    [{ gpus: 8 }, { gpus: 8, min: 8 }],
    [
      { gpus: 8, min: 2 },
      { gpus: 8, min: 2 },
    ],
    [
      { gpus: 8, shapes: [2, 8, 4] },
      { gpus: 8, min: 2, shapes: [4, 2] },
    ],
    [
      { gpus: 8, shapes: [8] },
      { gpus: 8, min: 8, shapes: [] },
    ],
    [
      { gpus: 8, min: 2, shapes: [6, 4] },
      { gpus: 8, min: 4, shapes: [6, 4] },
    ],
  ])("gang %j is understood as %j", (gang, want) => {
    expect(specOf({ ...SMALL_JOB, gang }).gang).toEqual({ ...want, timeoutMs: 30_000 });
  });

  it("hands a command in one text to the shell", () => {
    const { run } = specOf({ ...SMALL_JOB, run: { command: "python x.py | tee log" } });
    expect(run.command).toEqual(["sh", "-c", "python x.py | tee log"]);
  });

  it("may order checkpoints by a command", () => {
    const run = { command: "train", checkpoint: { command: ["save", "now"] } };
    expect(specOf({ ...SMALL_JOB, run }).run.checkpoint).toEqual({
      order: { kind: "command", command: ["save", "now"] },
      graceMs: 60_000,
    });
  });

  it("counts the bytes that the fleet reads, in UTF-8", () => {
    const spec = specOf(FULL_JOB);
    const { name, tenant, class: jobClass, priority, gang, constraints, timeLimitMs } = spec;
    const json = JSON.stringify({
      name,
      tenant,
      class: jobClass,
      priority,
      gang,
      constraints,
      timeLimitMs,
      slots: spec.array?.parallel,
      preemption: spec.preemption,
      checkpoint: { graceMs: 120_000, intervalMs: 600_000 },
    });
    expect(requestBytes(spec)).toBe(new TextEncoder().encode(json).length);
    expect(requestBytes({ ...spec, name: "ä€😀" })).toBe(
      requestBytes(spec) - "resnet50".length + 2 + 3 + 4,
    );
  });
});

describe("a wrong job file", () => {
  it.each([
    [{ name: 42 }, 'name: 42 is a number, not text; put it in quotes: "42"'],
    [{ name: "" }, "name: empty; write a name of letters, digits, ., _, / and -"],
    [
      { name: "a b" },
      'name: "a b" is no name for a job; write a name of letters, digits, ., _, / and -',
    ],
    [{ name: "x".repeat(201) }, `name: "${"x".repeat(60)}…" has 201 characters; write at most 200`],
    [{ class: "trainin" }, 'class: "trainin" is unknown; did you mean training?'],
    [
      { class: "batch" },
      'class: "batch" is unknown; write one of inference, interactive, training',
    ],
    [{ priority: 1001 }, "priority: 1001 is too large; write a whole number from -1000 to 1000"],
    [{ gang: 0 }, "gang: 0 is too small; write a whole number from 1 to 100000"],
    [{ gang: "8" }, 'gang: "8" is not a whole number; write 8 without quotes'],
    [{ gang: 2.5 }, "gang: 2.5 is not a whole number; write a whole number from 1 to 100000"],
    [{ gang: { gpus: -1 } }, "gang.gpus: -1 is too small; write a whole number from 1 to 100000"],
    [{ gang: { gpus: 4, min: 8 } }, "gang.min: 8 is more than gang.gpus, 4; write at most 4"],
    [
      { gang: { gpus: 4, shapes: [8] } },
      "gang.shapes[0]: 8 is more than gang.gpus, 4; leave it out, or raise gang.gpus",
    ],
    [
      { gang: { gpus: 4, min: 2, shapes: [1] } },
      "gang.shapes[0]: 1 is less than gang.min, 2; leave it out, or lower gang.min",
    ],
    [{ gang: { gpus: 4, shapes: [2, 2] } }, "gang.shapes[1]: 2 is there twice; leave one out"],
    [{ gang: { gpus: 4, timeout: 30 } }, "gang.timeout: 30 has no unit; write 30s"],
    [{ gpus: 8 }, "gpus: unknown key `gpus`; did you mean `gang.gpus`?"],
    [{ command: "x" }, "command: unknown key `command`; did you mean `run.command`?"],
    [{ time_limit: "1h" }, "time_limit: unknown key `time_limit`; did you mean `timeLimit`?"],
    [
      { constraints: { jurisdictions: "EU" } },
      'constraints.jurisdictions: "EU" is not a list; write [EU]',
    ],
    [
      { constraints: { gpuTypes: [] } },
      "constraints.gpuTypes: an empty list; name at least 1, or leave the key out",
    ],
    [{ constraints: { memory: 80 } }, "constraints.memory: 80 has no unit; write 80 GiB"],
    [
      { constraints: { memory: "0 GiB" } },
      'constraints.memory: "0 GiB" is nothing; write an amount of memory such as 80 GiB',
    ],
    [
      { constraints: { sameHost: "yes" } },
      'constraints.sameHost: "yes" is not true or false; write true or false',
    ],
    [{ retry: 3 }, "retry: 3 is not a map; write a map with the keys attempts, backoff"],
    [{ hold: null }, "hold: null is not true or false; write true or false"],
    [
      { array: { count: 1_000_001 } },
      "array.count: 1000001 is too large; write a whole number from 1 to 1000000",
    ],
    [
      { array: { count: 20_000 }, retry: { attempts: 51 } },
      "retry.attempts: 51 attempts of 20000 tasks are more than 1000000 starts; write at most 50, or submit several arrays",
    ],
    [
      { array: { count: 2 }, gang: { gpus: 2, min: 1 } },
      "gang.min: 1 is less than gang.gpus, but tasks of an array do not shrink; leave it out; all tasks of an array have gang.gpus",
    ],
    [
      { array: { count: 2 }, gang: { gpus: 2, shapes: [2, 1] } },
      "gang.shapes: there are smaller shapes, but tasks of an array do not shrink; leave it out; all tasks of an array have gang.gpus",
    ],
    [
      { array: { count: 2 }, run: { command: "x", env: { ARRAY_INDEX: "1" } } },
      'run.env.ARRAY_INDEX: "ARRAY_INDEX" is set by Orbweaver itself; leave it out',
    ],
    [
      { idempotencyKey: "orbweaver-fleet-x" },
      /^idempotencyKey: "orbweaver-fleet-x" is no name for a job's key; .* not with orbweaver-$/,
    ],
    [{ model: "" }, "model: empty; write some text, or leave the key out"],
    [{ run: { command: [] } }, "run.command: an empty list; name at least 1, or leave the key out"],
    [{ run: { command: [""] } }, "run.command[0]: empty; name the program first"],
    [
      { run: { command: ["a", 5] } },
      'run.command[1]: 5 is a number, not text; put it in quotes: "5"',
    ],
    [{ run: { command: "a\0b" } }, "run.command: text with a NUL character; leave the NUL out"],
    [{ run: {} }, "run.command: missing; write text such as python train.py --epochs 10"],
  ])("%j", (change, want) => {
    const [problem, ...others] = problemsOf({ ...SMALL_JOB, ...change });
    expect(problem).toMatch(want);
    if (typeof want === "string") expect(problem).toBe(want);
    expect(others).toEqual([]);
  });

  it.each([
    [{ RANK: "1" }, 'run.env.RANK: "RANK" is set by Orbweaver itself; leave it out'],
    [{ CUDA_VISIBLE_DEVICES: "0" }, /is set by Orbweaver itself/],
    [{ ORBWEAVER_MODEL: "x" }, /is set by Orbweaver itself/],
    [{ EPOCHS: 10 }, 'run.env.EPOCHS: 10 is a number, not text; put it in quotes: "10"'],
    [{ "A-B": "x" }, /is not a name of a variable/],
    [{ "": "x" }, /is not a name of a variable/],
    [JSON.parse('{"__proto__": "x"}'), /"__proto__" is not a name of a variable/],
    [["A=b"], 'run.env: a list of 1 is not a map; write a map such as {"EPOCHS":"10"}'],
  ])("env %j", (env, want) => {
    const [problem, ...others] = problemsOf({ ...SMALL_JOB, run: { command: "x", env } });
    expect(problem).toMatch(want);
    expect(others).toEqual([]);
  });

  it.each([
    [{}, /neither signal nor command is given; write signal: USR1/],
    [{ dir: "/x" }, /neither signal nor command/],
    [
      { signal: "USR1", command: ["x"] },
      "run.checkpoint.command: signal and command are both given; keep one of the two",
    ],
    [{ signal: "KILL" }, /KILL is not a signal for checkpoints; write one of USR1, USR2/],
    [{ signal: 10 }, /this is not a signal for checkpoints/],
    [{ signl: "USR1" }, "run.checkpoint.signl: unknown key `signl`; did you mean `signal`?"],
    [
      { signal: "USR1", dir: "ckpt" },
      'run.checkpoint.dir: "ckpt" does not begin with /; write the whole path, as the hosts see it',
    ],
    [{ signal: "USR1", grace: "0s" }, /"0s" is nothing/],
    [{ signal: "USR1", from: "a b" }, /^run\.checkpoint\.from: /],
    [
      { signal: "USR1", from: "train-7", dir: "/x" },
      "run.checkpoint.from: each run goes on from the newest checkpoint in dir; keep one of dir and from",
    ],
  ])("checkpoint %j", (checkpoint, want) => {
    const [problem, ...others] = problemsOf({ ...SMALL_JOB, run: { command: "x", checkpoint } });
    expect(problem).toMatch(want);
    expect(others).toEqual([]);
  });

  it.each([
    [{ array: { count: 2 } }, {}, /^run\.checkpoint\.from: each task of an array/],
    [
      {},
      { container: { image: "docker.io/a/b:1" } },
      /^run\.checkpoint\.from: a container sees no/,
    ],
    [{}, {}, undefined],
  ])("from another job's checkpoint, beside %j and run %j", (more, run, want) => {
    const checkpoint = { signal: "USR1", from: "train-7" };
    const file = { ...SMALL_JOB, ...more, run: { command: "x", checkpoint, ...run } };
    if (want === undefined) expect(specOf(file).run.checkpoint?.from).toBe("train-7");
    else expect(problemsOf(file)).toEqual([expect.stringMatching(want)]);
  });

  it.each([
    [undefined, /^the file is empty; write a map with the keys name, tenant, class/],
    [null, /^null is not a map; write a map with the keys name/],
    [[], /^an empty list is not a map/],
    ["job", /^"job" is not a map/],
  ])("is no map but %j", (file, want) => {
    const problems = problemsOf(file);
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(want);
  });

  it("has all its problems told at once, those between keys included", () => {
    const problems = problemsOf({
      name: "x y",
      clas: "training",
      gang: { gpus: 4, min: 8, timeout: 5, extra: 1 },
      run: { comand: "x", env: { RANK: "0", B: 1 } },
      array: { count: 0 },
    });
    expect(problems.map((problem) => problem.split(":")[0])).toEqual([
      "array.count",
      "clas",
      "gang.extra",
      "gang.min",
      "gang.timeout",
      "name",
      "run.comand",
      "run.command",
      "run.env.B",
      "run.env.RANK",
    ]);
  });

  it("with thousands of problems tells the first hundred and counts the rest", () => {
    const file = Object.fromEntries(Array.from({ length: 5000 }, (_, index) => [`zz${index}`, 1]));
    const problems = problemsOf({ ...SMALL_JOB, ...file });
    expect(problems).toHaveLength(101);
    expect(problems[100]).toMatch(/^and 4900 more problems/);
  });

  it("shows hostile values short and without effect", () => {
    const hostile = `\u001b[31m\u0007\u202e${"x".repeat(10_000)}`;
    for (const problem of problemsOf({
      ...SMALL_JOB,
      name: hostile,
      [hostile]: 1,
      class: hostile,
    })) {
      expect(problem).not.toMatch(/[\u0000-\u001f\u202e]/);
      expect(problem.length).toBeLessThan(600);
    }
  });
});
