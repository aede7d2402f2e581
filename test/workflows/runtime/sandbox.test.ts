/** @file What the sandbox of Temporal's worker loads and notes for each run, which every task pays for. */

import path from "node:path";
import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { beforeAll, describe, expect, it } from "vitest";

const ROOT = path.join(import.meta.dirname, "../../..");

interface Look {
  readonly commands: readonly string[];
  readonly failure?: { readonly message: string; readonly stackTrace: string };
  readonly loaded: readonly string[];
  /** Promises whose stack was noted. */
  readonly stacks: number;
}

let looks: Readonly<Record<"job" | "failing", Look>> & { readonly isErrorFrozen: boolean };

beforeAll(async () => {
  const thread = new Worker(path.join(ROOT, "test/support/sandbox-look.mjs"), {
    workerData: path.join(ROOT, "dist/workflow-bundle.js"),
  });
  [looks] = (await once(thread, "message")) as [typeof looks];
  await thread.terminate();
});

describe("the sandbox of a run", () => {
  it("runs the first task of a job", () => {
    expect(looks.job.commands).toContain("scheduleLocalActivity");
  });

  it("loads for each run only what may hold its state: the rest is loaded once for all", () => {
    const shared = /^\.\/(dist\/(machines|scheduling)|node_modules\/zod)\//;
    expect(looks.job.loaded.filter((name) => shared.test(name))).toEqual([]);
    expect(looks.job.loaded).toContain("./dist/workflows/runtime/word-gate.js");
    expect(looks.job.loaded.length).toBeLessThan(150);
  });

  it("notes no stack for a promise", () => {
    expect(looks.job.stacks).toBe(0);
  });

  it("leaves no run the realm's true Error to change, which all runs of a thread share", () => {
    expect(looks.isErrorFrozen).toBe(true);
  });

  it("leaves errors their stacks, in the words of the sources", () => {
    expect(looks.failing.commands).toContain("failWorkflowExecution");
    expect(looks.failing.failure?.stackTrace).toMatch(/at .*workflows\/job\/job\.(js|ts):\d+/);
  });
});
