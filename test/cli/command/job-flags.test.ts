/** @file Flags of `submit` become a job file, alone or over what a file says. */

import { describe, expect, it } from "vitest";
import { arrayFlag } from "../../../cli/command/array-tasks.ts";
import { hasJobFlags, jobFileWith, nameOf } from "../../../cli/command/job-flags.ts";
import { readJob } from "../../../client/index.ts";

const FILE = `
name: resnet
tenant: vision
gang: { gpus: 8, min: 4, timeout: 1m }
constraints: { jurisdictions: [EU] }
run: { command: [python, train.py], env: { SEED: "1", EPOCHS: "9" } }
`;
const base = { text: FILE, file: "job.yaml" };

describe("a one-liner", () => {
  it("needs a size and a command; its name is the script's", () => {
    const file = jobFileWith(undefined, { gpus: 8 }, ["python", "src/train.py", "--lr", "1"]);
    expect(file).toEqual({
      name: "train",
      gang: { gpus: 8 },
      run: { command: ["python", "src/train.py", "--lr", "1"] },
    });
    expect(readJob(file).spec.gang).toMatchObject({ gpus: 8, min: 8 });
  });

  it("names tasks of an array in place of those of the file", () => {
    const text =
      "name: a\ngang: 1\narray: { count: 9, tasks: '3', parallel: 2 }\nrun: { command: [a] }";
    const of = (array: string) =>
      readJob(jobFileWith({ text, file: "a.yaml" }, { array: arrayFlag(array) }, undefined)).spec
        .array;
    expect(of("4")).toEqual({ count: 4, parallel: 2 });
    expect(of("0-3")).toEqual({ count: 4, parallel: 2 });
    expect(of("0-9:4%1")).toEqual({ count: 10, parallel: 1, tasks: "0,4,8" });
    expect(of("7,3")).toEqual({ count: 8, parallel: 2, tasks: "3,7" });
    expect(of("0-999999")).toEqual({ count: 1_000_000, parallel: 2 });
  });

  it("takes every flag to its key", () => {
    const flags = {
      gpus: 16,
      min: 8,
      gangTimeout: "10m",
      name: "x",
      class: "inference",
      tenant: "t",
      priority: 5,
      env: new Map([["A", "1"]]),
      workdir: "/w",
      launch: "per-host",
      gpuType: ["H100"],
      memory: "80GiB",
      cluster: ["eu-1"],
      jurisdiction: ["EU"],
      sameHost: true,
      antiAffinity: "db",
      grow: false,
      preempt: true,
      shrink: true,
      minRuntime: "10m",
      timeLimit: "2h",
      deadline: "1d",
      attempts: 3,
      hold: true,
    };
    const { spec } = readJob(jobFileWith(undefined, flags, ["a"]));
    expect(spec).toMatchObject({
      name: "x",
      class: "inference",
      tenant: "t",
      priority: 5,
      gang: { gpus: 16, min: 8, timeoutMs: 600_000 },
      constraints: {
        gpuTypes: ["H100"],
        gpuMemoryGiB: 80,
        clusters: ["eu-1"],
        jurisdictions: ["EU"],
        isSameHost: true,
        antiAffinity: "db",
      },
      preemption: { isPreemptible: true, mayShrink: true, minRuntimeMs: 600_000 },
      run: { command: ["a"], env: { A: "1" }, workdir: "/w", launch: "per-host" },
      retry: { attempts: 3 },
      timeLimitMs: 7_200_000,
      deadlineMs: 86_400_000,
      isHeld: true,
    });
    expect(hasJobFlags(flags)).toBe(true);
    expect(hasJobFlags({})).toBe(false);
  });
});

describe("flags over a file", () => {
  it("replace what they name and leave the rest", () => {
    const { spec } = readJob(
      jobFileWith(base, { gpus: 6, env: new Map([["SEED", "2"]]) }, undefined),
    );
    expect(spec).toMatchObject({
      name: "resnet",
      tenant: "vision",
      gang: { gpus: 6, min: 4 },
      constraints: { jurisdictions: ["EU"] },
      run: { command: ["python", "train.py"], env: { SEED: "2", EPOCHS: "9" } },
    });
  });

  it("make a whole of a file that lacks what they say", () => {
    const file = jobFileWith({ text: "tenant: a", file: "f" }, { gpus: 1, name: "n" }, ["true"]);
    expect(readJob(file).spec).toMatchObject({ tenant: "a", name: "n", gang: { gpus: 1 } });
  });

  it("do not hide that a file is no map or no YAML", () => {
    expect(() => jobFileWith({ text: "- 1", file: "f" }, { gpus: 1 }, ["a"])).toThrow(
      /f is not a map/,
    );
    expect(() => jobFileWith({ text: "a: [", file: "f" }, { gpus: 1 }, ["a"])).toThrow(/f:1:/);
  });
});

it.each([
  [["python", "train.py"], "train"],
  [["python3.12", "-m", "pkg"], "python3"],
  [["/usr/bin/env.sh"], "env"],
  [["torchrun", "a b.py"], "a-b"],
  [["./"], "job"],
  [["--"], "job"],
])("the name of %j is %s", (commandLine, wantName) => {
  expect(nameOf(commandLine)).toBe(wantName);
});
