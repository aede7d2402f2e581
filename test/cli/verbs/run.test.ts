/** @file `run`: a job at a terminal with its output, signals and exit status. */

import { afterEach, describe, expect, it } from "vitest";
import type {
  JobEnding,
  JobFile,
  JobHandle,
  JobOutcome,
  JobView,
  LogOptions,
} from "../../../client/index.ts";
import { OrbweaverError } from "../../../domain/values/failure.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { run } from "../run.ts";

const DONE: JobOutcome = {
  kind: "failed",
  message: "rank 0 ended with 3",
  failure: { code: "PROCESS_EXITED", attempts: 1, exitCode: 3 },
};
const WORDS = ["run", "--gpus", "2", "--", "python", "a.py", "--lr", "1"];

/** A job whose end and cancellation the test decides. */
function standIn({ isRunning }: { readonly isRunning: boolean }) {
  let end: (outcome: JobOutcome) => void = () => undefined;
  const outcome = new Promise<JobOutcome>((resolve) => {
    end = resolve;
  });
  const submitted: (JobFile | string)[] = [];
  const cancelled: string[] = [];
  let running: () => void = () => undefined;
  const runs = new Promise<void>((resolve) => {
    running = resolve;
  });
  const job: Partial<JobHandle> = {
    jobId: jobId("b"),
    outcome: () => outcome,
    view: () => Promise.reject(new Error("no view")),
    cancel: () => {
      cancelled.push("b");
      end({ kind: "cancelled" });
      return Promise.resolve();
    },
    logs: async function* ({ onAttempt, rank }: LogOptions = {}) {
      if (isRunning) {
        onAttempt?.({ attempt: 1, gpus: [] } as never);
        yield `rank ${String(rank)}\n`;
      }
      running();
      await outcome;
    },
  };
  const client = {
    submit: (file: JobFile | string) => {
      submitted.push(file);
      return Promise.resolve({ jobId: jobId("b"), isNew: true });
    },
    job: () => job as JobHandle,
  };
  return { client, end, runs, submitted, cancelled };
}

const signalled = (signal: NodeJS.Signals): boolean => process.emit(signal, signal);
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

describe("run", () => {
  afterEach(() => expect(process.listenerCount("SIGTERM")).toBeLessThan(3));

  it("submits an interactive job, shows all ranks and ends as the job did", async () => {
    const of = standIn({ isRunning: true });
    const answer = run(WORDS, { client: of.client });
    await of.runs;
    of.end(DONE);
    const { code, stdout, stderr } = await answer;
    expect({ code, stdout }).toEqual({ code: 3, stdout: "rank all\n" });
    expect(stderr).toMatch(/^b\n/);
    expect(of.submitted).toEqual([
      {
        name: "a",
        class: "interactive",
        gang: { gpus: 2 },
        run: { command: ["python", "a.py", "--lr", "1"] },
      },
    ]);
  });

  it("keeps the class that is named", async () => {
    const of = standIn({ isRunning: true });
    of.end(DONE);
    await run(["run", "--class", "training", ...WORDS.slice(1)], { client: of.client });
    expect(of.submitted).toMatchObject([{ class: "training" }]);
  });

  it.each([
    { of: "a job that waits is cancelled by one Ctrl-C", isRunning: false, twice: false },
    { of: "a job that runs is cancelled by two", isRunning: true, twice: true },
  ])("$of", async ({ isRunning, twice }) => {
    const of = standIn({ isRunning });
    const answer = run(WORDS, { client: of.client });
    await of.runs;
    signalled("SIGINT");
    await settled();
    expect(of.cancelled).toEqual(twice ? [] : ["b"]);
    if (twice) signalled("SIGINT");
    const { code, stderr } = await answer;
    expect({ code, cancelled: of.cancelled }).toEqual({ code: 130, cancelled: ["b"] });
    expect(stderr).toContain("b was cancelled\n");
  });

  it("a job that was being submitted at Ctrl-C is cancelled", async () => {
    const of = standIn({ isRunning: false });
    const pressed = new AbortController();
    const submit: typeof of.client.submit = async (file) => {
      pressed.abort();
      return await of.client.submit(file);
    };
    const client = { ...of.client, submit };
    const { code } = await run(WORDS, { client, interrupted: pressed.signal });
    expect({ code, cancelled: of.cancelled }).toEqual({ code: 130, cancelled: ["b"] });
  });

  it("nothing is submitted after Ctrl-C", async () => {
    const of = standIn({ isRunning: false });
    const { code } = await run(WORDS, { client: of.client, interrupted: AbortSignal.abort() });
    expect({ code, submitted: of.submitted }).toEqual({ code: 130, submitted: [] });
  });

  it("a job that waits again after a run is cancelled by one Ctrl-C", async () => {
    const of = standIn({ isRunning: true });
    let tell: () => void = () => undefined;
    const told = new Promise<void>((resolve) => {
      tell = resolve;
    });
    const view = async () => {
      await of.runs;
      setImmediate(tell);
      return { jobId: jobId("b"), state: "pending", attempts: [] } as unknown as JobView;
    };
    const client = { ...of.client, job: () => ({ ...of.client.job(), view }) };
    const answer = run(WORDS, { client });
    await told;
    signalled("SIGINT");
    expect(await answer).toMatchObject({ code: 130 });
    expect(of.cancelled).toEqual(["b"]);
  });

  it("waits for a server that is away, and says so once", async () => {
    const of = standIn({ isRunning: true });
    let lost = 2;
    const outcome = async () => {
      if ((lost -= 1) >= 0) throw new OrbweaverError("NO_CONNECTION", "no answer");
      return await of.client.job().outcome();
    };
    const client = { ...of.client, job: () => ({ ...of.client.job(), outcome }) };
    of.end(DONE);
    const { code, stderr } = await run(WORDS, { client });
    expect(code).toBe(3);
    expect(stderr.match(/no answer; b goes on/g)).toHaveLength(1);
  });

  it("TERM cancels a job that runs, HUP leaves it", async () => {
    const one = standIn({ isRunning: true });
    const first = run(WORDS, { client: one.client });
    await one.runs;
    signalled("SIGTERM");
    expect(await first).toMatchObject({ code: 130 });
    const other = standIn({ isRunning: true });
    const second = run(WORDS, { client: other.client });
    await other.runs;
    signalled("SIGHUP");
    const { code, stderr } = await second;
    expect({ code, cancelled: other.cancelled }).toEqual({ code: 129, cancelled: [] });
    expect(stderr).toContain("b continues; `orbweaver cancel b` stops it\n");
  });

  it("a job that has printed nothing says so", async () => {
    const of = standIn({ isRunning: false });
    const logs = async function* ({ onAttempt }: LogOptions = {}) {
      onAttempt?.({ attempt: 1, gpus: [] } as never);
      await Promise.resolve();
      yield "";
    };
    of.end({ kind: "cancelled" });
    const client = { ...of.client, job: () => ({ ...of.client.job(), logs }) };
    expect((await run(WORDS, { client })).stderr).toContain("b has printed nothing\n");
    const logsOf = async (ending: JobEnding): Promise<string> => {
      const job = { ...of.client.job(), logs, ending: () => Promise.resolve(ending) };
      return (await run(["logs", "b"], { client: { job: () => job } })).stderr;
    };
    const end = { isCancelAsked: true, outcome: { kind: "cancelled" } } as const;
    expect(await logsOf(end)).toBe("b has printed nothing\n");
    expect(await logsOf({ isCancelAsked: false })).toBe("b has printed nothing so far\n");
  });

  it.each([
    { words: ["run", "--gpus", "1"], want: /a command is missing/ },
    { words: ["run", "--", "x"], want: /^error BAD_INPUT: --gpus is missing/ },
    { words: ["run", "--gpus", "1", "--array", "3", "--", "x"], want: /neither an array nor held/ },
    { words: ["run", "--gpus", "1", "--hold", "--", "x"], want: /neither an array nor held/ },
    { words: ["run", "--pty", "--launch", "per-gpu", "--", "x"], want: /is one process/ },
    { words: ["run", "--input", "--gpus", "1"], want: /a command is missing/ },
  ])("refuses $words", async ({ words, want }) => {
    const { code, stderr } = await run(words, { client: {} });
    expect(code).toBe(2);
    expect(stderr).toMatch(want);
  });
});
