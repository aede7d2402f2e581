/** @file What a job file says of giving GPUs up and of growing: its meaning, its defaults, and what is refused. */

import { describe, expect, it } from "vitest";
import { scheduledPart } from "../../domain/lease/gang-request.ts";
import { problemsOf, SMALL_JOB, specOf } from "./job-text.ts";

const CHECKPOINT = { signal: "USR1", grace: "20s", interval: "5m" };
const saving = { run: { command: ["true"], checkpoint: CHECKPOINT } };

describe("the preemption of a job", () => {
  it.each([
    ["training", { isPreemptible: true, mayShrink: false, minRuntimeMs: 60_000 }],
    ["interactive", { isPreemptible: true, mayShrink: false, minRuntimeMs: 300_000 }],
    ["inference", { isPreemptible: false, mayShrink: false, minRuntimeMs: 0 }],
  ])("of class %s is that of its class where the file says nothing of it", (className, want) => {
    expect(specOf({ ...SMALL_JOB, class: className, preemption: {} }).preemption).toEqual(want);
    expect(specOf({ ...SMALL_JOB, class: className })).not.toHaveProperty("preemption");
  });

  it("may be forbidden, may be by parts, and may begin later", () => {
    const forbidden = specOf({ ...SMALL_JOB, preemption: { allowed: false } });
    expect(forbidden.preemption).toMatchObject({ isPreemptible: false });
    const gang = { gpus: 8, min: 2 };
    const preemption = { shrink: true, minRuntime: "0s" };
    expect(specOf({ ...SMALL_JOB, gang, preemption }).preemption).toEqual({
      isPreemptible: true,
      mayShrink: true,
      minRuntimeMs: 0,
    });
  });

  it.each([
    [
      { gang: 4, preemption: { shrink: true } },
      "preemption.shrink: the gang has no smaller form to go on with; write gang.min or gang.shapes, or leave it out",
    ],
    [
      { gang: { gpus: 4, min: 4 }, preemption: { shrink: true } },
      "preemption.shrink: the gang has no smaller form to go on with; write gang.min or gang.shapes, or leave it out",
    ],
    [
      { gang: { gpus: 4, min: 1 }, preemption: { allowed: false, shrink: true } },
      "preemption.shrink: it says nothing, because preemption.allowed is false; write allowed: true, or leave it out",
    ],
    [
      { class: "inference", preemption: { minRuntime: "1m" } },
      "preemption.minRuntime: it says nothing, because inference is not preempted; write allowed: true, or leave it out",
    ],
    [{ preemption: { minRuntime: 60 } }, "preemption.minRuntime: 60 has no unit; write 60s"],
    [
      { preemption: { allowed: "yes" } },
      'preemption.allowed: "yes" is not true or false; write true or false',
    ],
    [
      { preemption: { allow: true } },
      "preemption.allow: unknown key `allow`; did you mean `allowed`?",
    ],
    [
      { gang: { gpus: 4, min: 2, grow: true } },
      "gang.grow: without run.checkpoint the job would begin again from nothing; write run.checkpoint, or leave it out",
    ],
    [
      { gang: { gpus: 4, shapes: [4], grow: true }, ...saving },
      "gang.grow: the gang has no smaller form that it could grow from; write gang.min or gang.shapes, or leave it out",
    ],
    [
      { constraints: { antiAffinity: "a b" } },
      'constraints.antiAffinity: "a b" is no name for a label; write a name of letters, digits, ., _ and -, beginning with a letter or digit',
    ],
  ])("%j has one problem", (change, want) => {
    expect(problemsOf({ ...SMALL_JOB, ...change })).toEqual([want]);
  });
});

describe("the time for which a gang keeps its hosts when it loses one", () => {
  it.each([
    [{ gpus: 8, replace: "10m" }, 600_000],
    [{ gpus: 8, replace: "0s" }, 0],
    [{ gpus: 8, replace: "1h" }, 3_600_000],
    [{ gpus: 8 }, undefined],
    [8, undefined],
  ])("of the gang %j is %s ms, and no part of what a request says", (gang, want) => {
    const spec = specOf({ ...SMALL_JOB, gang });
    expect(spec.replaceMs).toBe(want);
    expect(spec.gang).toEqual(specOf({ ...SMALL_JOB, gang: 8 }).gang);
  });

  it.each([
    [
      { gang: { gpus: 8, replace: "61m" } },
      'gang.replace: "61m" is more than 1h; write at most 1h',
    ],
    [
      { gang: { gpus: 8, replace: "5m" }, array: { count: 3 } },
      "gang.replace: a task of an array that loses a host starts anew elsewhere; leave it out",
    ],
    [{ gang: { gpus: 8, replace: 5 } }, "gang.replace: 5 has no unit; write 5s"],
  ])("%j has one problem", (change, want) => {
    expect(problemsOf({ ...SMALL_JOB, ...change })).toEqual([want]);
  });
});

describe("what the fleet hears of it", () => {
  it("is the job's own rule, its label, its wish to grow, and how long a checkpoint takes", () => {
    const gang = { gpus: 8, min: 2, grow: true };
    const preemption = { shrink: true };
    const constraints = { antiAffinity: "db" };
    const spec = specOf({ ...SMALL_JOB, ...saving, gang, preemption, constraints });
    expect(scheduledPart(spec)).toMatchObject({
      gang: { gpus: 8, min: 2, mayGrow: true },
      constraints: { antiAffinity: "db" },
      preemption: { isPreemptible: true, mayShrink: true, minRuntimeMs: 60_000 },
      checkpoint: { graceMs: 20_000, intervalMs: 300_000 },
    });
  });

  it("is nothing where the job says nothing, as before there was a choice", () => {
    expect(Object.keys(scheduledPart(specOf(SMALL_JOB)))).toEqual([
      "name",
      "tenant",
      "class",
      "priority",
      "gang",
      "constraints",
    ]);
  });
});
