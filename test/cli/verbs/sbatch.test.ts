/** @file Batch scripts of Slurm: what becomes of their options, what is named as left out, what is refused. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readJob, type JobFile } from "../../../client/index.ts";
import { isSbatchScript, readSbatch } from "../../../cli/command/sbatch.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { run } from "../run.ts";

const read = (options: readonly string[], first = "#!/bin/bash") => {
  const text = [first, ...options.map((each) => `#SBATCH ${each}`), "python t.py"].join("\n");
  return readSbatch(text, { file: "dir/t.sbatch", cwd: "/home/ada" });
};

it("a whole script becomes a job that our own parser takes", () => {
  const { job, unmapped } = read([
    "--job-name='my train' # a note",
    "-A vision -N2 --gpus-per-node=h100:8",
    "--time=1-02:30:00",
    "--hold",
    "--output=%j.out",
    "--mem 64G",
  ]);
  expect(job).toEqual({
    name: "my-train",
    tenant: "vision",
    gang: 16,
    constraints: { gpuTypes: ["H100"] },
    timeLimit: "1d2h30m",
    hold: true,
    run: {
      command: [
        ...["/bin/sh", "-c", expect.stringMatching(/^export SLURM_JOB_ID=.*; exec "\$@"$/), "sh"],
        ...["/bin/bash", "-c", expect.stringMatching(/^#!\/bin\/bash\n[^]*\npython t.py$/)],
      ],
      workdir: "/home/ada",
      launch: "per-host",
    },
  });
  expect(unmapped).toEqual([
    "dir/t.sbatch:6: --output=%j.out: `orbweaver logs` shows the output",
    "dir/t.sbatch:7: --mem=64G: a job has its GPUs' share of the host's memory; --mem-per-gpu asks for an amount",
  ]);
  expect(readJob(job as JobFile).spec.gang.gpus).toBe(16);
});

it("steps that srun would start are named: no host has it", () => {
  const text = "#!/bin/bash\n#SBATCH -G1\n# srun is gone\nNCCL_DEBUG=INFO srun -n1 hostname\n";
  expect(readSbatch(text, { file: "t.sbatch", cwd: "/" }).unmapped).toEqual([
    expect.stringMatching(/^t\.sbatch:4: srun: hosts have no such command/),
  ]);
});

it.each<[readonly string[], object]>([
  [["-G 4"], { gang: 4, constraints: { sameHost: true } }],
  [["--gpus=a100:4", "-N 2"], { gang: 4, constraints: { gpuTypes: ["A100"] } }],
  [["--gres=gpu:h200:2", "--nodes=3"], { gang: 6 }],
  [["--gres=gpu"], { gang: 1 }],
  [["-G1", "-J 'a b'"], { name: "a-b" }],
  [["-G1", "--chdir /work"], { run: { workdir: "/work" } }],
  [["-G1", "-t 90"], { timeLimit: "1h30m" }],
  [["-G1", "-t 1:30"], { timeLimit: "1m30s" }],
  [["-G1", "-t 2-0"], { timeLimit: "2d" }],
  [["-G1", "-a 0-3"], { array: { count: 4 } }],
  [["-G1", "--array=1,3-9:2%2"], { array: { count: 10, tasks: "1,3-9:2", parallel: 2 } }],
  [["-G1", "-G2"], { gang: 2 }],
  [["--gpus-per-task=h100:2", "-n 3"], { gang: 6, constraints: { gpuTypes: ["H100"] } }],
  [["--gpus-per-task=1", "-N 2", "--ntasks-per-node=4"], { gang: 8 }],
  [["--gpus-per-task=1", "-N 1"], { gang: 1, constraints: { sameHost: true } }],
  [
    ["-G1", "--cpus-per-gpu=8", "--mem-per-gpu=64G"],
    { resources: { perGpu: { cpus: 8, memory: "64 GiB" } } },
  ],
  [["-G1", "--mem-per-gpu=512"], { resources: { perGpu: { memory: "512 MiB" } } }],
  [
    ["-G1", "-d afterok:a-1:b,afterany:c,after:d,afternotok:e"],
    {
      after: [
        { job: "a-1", on: "success" },
        { job: "b", on: "success" },
        { job: "c", on: "end" },
        { job: "d", on: "start" },
        { job: "e", on: "failure" },
      ],
    },
  ],
])("%j becomes %j", (options, wantJob) => {
  const { job, unmapped } = read(options);
  expect(job).toMatchObject(wantJob);
  expect(unmapped).toEqual([]);
  expect(() => readJob(job as JobFile)).not.toThrow();
});

it.each([
  [["-J a"], /asks for no GPUs/],
  [["-G1", "--job-name=my train"], /^dir\/t.sbatch:3: train is no option/],
  [["-G1", "hetjob", "-G2"], /^dir\/t.sbatch:3: a job of unlike parts has no counterpart/],
  [["-G1", "--mem-per-gpu=lots"], /--mem-per-gpu=lots cannot be read/],
  [["-G1", "--time=soon"], /^dir\/t.sbatch:3: --time=soon cannot be read/],
  [["-G1", "--array=5-1"], /--array=5-1 cannot be read/],
  [["-G1", "--array=0-1000000"], /cannot be read/],
  [["--gres=license:1"], /cannot be read/],
  [["-G1", "--dependency=afterok:a?afterok:b"], /--dependency=afterok:a\?afterok:b cannot be read/],
  [["-G1", "-d aftercorr:a"], /cannot be read/],
  [["-G1", "-d singleton,afterok"], /cannot be read/],
])("%j is refused", (options, wantError) => {
  expect(() => read(options)).toThrow(
    expect.objectContaining({ code: "BAD_INPUT", message: expect.stringMatching(wantError) }),
  );
});

it.each([
  ["-d singleton", true, undefined],
  ["--dependency=afterok:a,singleton", true, [{ job: "a", on: "success" }]],
  ["-d afterok:a", false, [{ job: "a", on: "success" }]],
])("%s waits for namesakes: %s", (option, wantSingleton, wantAfter) => {
  const { job, isSingleton, unmapped } = read(["-G1", option]);
  expect([isSingleton, job["after"]]).toEqual([wantSingleton, wantAfter]);
  expect(unmapped).toEqual([]);
});

it("options end with the first command, and only a script with options is one", () => {
  const text = "#!/bin/sh\n\n# note\n#SBATCH -G1\ntrue\n#SBATCH -G8\n";
  expect(readSbatch(text, { file: "a", cwd: "/" }).job).toMatchObject({ gang: 1 });
  expect(isSbatchScript(text)).toBe(true);
  expect(isSbatchScript("name: a\n#SBATCH -G1\n")).toBe(false);
  expect(isSbatchScript("#!/bin/sh\ntrue\n")).toBe(false);
});

it("a script of another interpreter is refused, one of python stands line by line as it was", () => {
  expect(() => read(["-G1"], "#!/usr/bin/perl")).toThrow(/no shell and no python/);
  const { command } = read(["-G1"], "#!/usr/bin/env python3").job["run"] as { command: string[] };
  expect(command.slice(4, 7)).toEqual(["/usr/bin/env", "python3", "-c"]);
  expect(command[7]).toMatch(/^#!\/usr\/bin\/env python3\n#SBATCH -G1\npython t.py$/);
});

it("an array's task knows its number, and nothing takes a script for a step of srun", () => {
  const wordsOf = (...options: string[]): string =>
    (read(["-G1", ...options]).job["run"] as { command: string[] }).command[2] ?? "";
  expect(wordsOf("-a 0-3")).toContain('SLURM_ARRAY_TASK_ID="$ARRAY_INDEX"');
  expect(wordsOf('-D "/my/a b"')).toContain("SLURM_SUBMIT_DIR='/my/a b'");
  expect(wordsOf()).not.toMatch(/SLURM_(ARRAY|PROCID|NTASKS)/);
});

describe("submit", () => {
  it("waits for namesakes where the script says singleton, and is refused with a key", async () => {
    const submitted: { readonly after?: unknown }[] = [];
    const submit = (job: object) => {
      submitted.push(job);
      return Promise.resolve({ jobId: jobId("b"), isNew: true });
    };
    async function* list() {
      yield await Promise.resolve({ jobId: "a", name: "sync" });
    }
    const file = script("#!/bin/sh\n#SBATCH -G1 -J sync -d singleton\ntrue\n");
    const client = { submit, list } as never;
    expect((await run(["submit", file], { client })).code).toBe(0);
    expect(submitted).toMatchObject([{ after: [{ job: "a", on: "end" }] }]);
    expect(await run(["submit", file, "--key", "k"], { client })).toMatchObject({ code: 2 });
  });

  const script = (text: string): string => {
    const file = join(mkdtempSync(join(tmpdir(), "orbweaver-sbatch-")), "train.sbatch");
    writeFileSync(file, text);
    return file;
  };

  it("takes the script, names what it left out, and lets flags win", async () => {
    const submitted: unknown[] = [];
    const submit = (job: unknown) => {
      submitted.push(job);
      return Promise.resolve({ jobId: jobId("a"), isNew: true });
    };
    const file = script("#!/bin/sh\n#SBATCH -G 2 --qos=fast\ntrue\n");
    const { code, stdout, stderr } = await run(["submit", file, "--gpus", "4"], {
      client: { submit },
    });
    expect({ code, stdout }).toEqual({ code: 0, stdout: "a\n" });
    expect(stderr).toMatch(/^left out: .*train.sbatch:2: --qos=fast: /);
    expect(submitted).toMatchObject([{ name: "train.sbatch", gang: { gpus: 4 } }]);
  });

  it("refuses what the job file refuses, by the script's name", async () => {
    const file = script("#!/bin/sh\n#SBATCH -G 2 --priority=99999\ntrue\n");
    const { code, stderr } = await run(["submit", file]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/train.sbatch.*priority.*too large/);
  });
});
