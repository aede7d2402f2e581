/** @file Many jobs at once: nothing while one has a problem, the answers in order, a busy server waited for. */

import { ServiceError } from "@temporalio/client";
import { describe, expect, it } from "vitest";
import { patiently } from "../../client/back-pressure.ts";
import { sendInOrder, submitAll } from "../../client/submit-all.ts";
import type { JobFile, Submitted } from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { jobId } from "../../domain/values/ids.ts";

const job = (name: string, more: Partial<JobFile> = {}): JobFile => ({
  name,
  gang: 1,
  run: { command: ["true"] },
  ...more,
});
const answerOf = (name: string): Submitted => ({ jobId: jobId(name), isNew: true });
const check = (): Promise<void> => Promise.resolve();
const soon = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

describe("submitting many jobs", () => {
  it("gives the answers in the order of the jobs, and tells of each in that order, however long each takes", async () => {
    const names = Array.from({ length: 100 }, (_, at) => `j${String(at)}`);
    const told: string[] = [];
    let flying = 0;
    let most = 0;
    const submit = async ({ name }: JobFile): Promise<Submitted> => {
      most = Math.max(most, ++flying);
      await soon((Number(name.slice(1)) * 7) % 5);
      flying -= 1;
      return answerOf(name);
    };
    const answers = await submitAll(
      names.map((name) => job(name)),
      { onSubmitted: (answer, at) => told.push(`${String(at)} ${answer.jobId}`) },
      { submit, check },
    );
    expect(answers.map((answer) => answer.jobId)).toEqual(names);
    expect(told).toEqual(names.map((name, at) => `${String(at)} ${name}`));
    expect(most).toBe(16);
  });

  it("sends nothing while any has a problem, and names all problems with their places", async () => {
    const sent: string[] = [];
    const submit = ({ name }: JobFile): Promise<Submitted> => {
      sent.push(name);
      return Promise.resolve(answerOf(name));
    };
    const jobs = [job("a"), job("B!"), "name: c\ngang: 0\nrun: { command: [x] }\n", job("d")];
    await expect(submitAll(jobs, {}, { submit, check })).rejects.toMatchObject({
      code: "BAD_INPUT",
      details: {
        problems: [
          expect.stringMatching(/^job 2: .*name/) as string,
          expect.stringMatching(/^job 3.*gang/) as string,
        ],
      },
    });
    const twice = [job("a", { idempotencyKey: "k" }), job("b", { idempotencyKey: "k" })];
    await expect(submitAll(twice, {}, { submit, check })).rejects.toMatchObject({
      code: "BAD_INPUT",
    });
    expect(sent).toEqual([]);
  });

  it("sends nothing where one would never start, and does not ask about those with a key, or when told to queue them anyway", async () => {
    const sent: string[] = [];
    const asked: string[] = [];
    const ways = {
      submit: ({ name }: JobFile): Promise<Submitted> => {
        sent.push(name);
        return Promise.resolve(answerOf(name));
      },
      check: (files: readonly JobFile[]): Promise<void> => {
        asked.push(...files.map(({ name }) => name));
        return Promise.reject(new OrbweaverError("NEVER_STARTS", "too large"));
      },
    };
    const jobs = [job("a"), job("b", { idempotencyKey: "k" })];
    await expect(submitAll(jobs, {}, ways)).rejects.toMatchObject({ code: "NEVER_STARTS" });
    expect([asked, sent]).toEqual([["a"], []]);
    await submitAll(jobs, { isQueuedAnyway: true }, ways);
    expect([asked, sent]).toEqual([["a"], ["a", "b"]]);
  });

  it("stops after a failure and says which jobs were submitted", async () => {
    const names = Array.from({ length: 50 }, (_, at) => `j${String(at)}`);
    const submit = async (name: string, at: number): Promise<Submitted> => {
      await soon(1);
      if (at === 20) throw new OrbweaverError("NO_CONNECTION", "gone");
      return answerOf(name);
    };
    const error: unknown = await sendInOrder(names, submit).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "NO_CONNECTION", details: { failed: 20 } });
    const { submitted } = (error as OrbweaverError).details as { submitted: readonly string[] };
    expect(submitted.slice(0, 20)).toEqual(names.slice(0, 20));
    // Those that were on their way with it, and no later one.
    expect(submitted.length).toBeLessThanOrEqual(20 + 15);
    expect(submitted).not.toContain("j20");
  });

  it("submits nothing of an empty list", async () => {
    const submit = (): Promise<never> => Promise.reject(new Error("none"));
    expect(await submitAll([], {}, { submit, check })).toEqual([]);
  });
});

describe("back-pressure", () => {
  const refusal = (code: number, details: string): Error =>
    new ServiceError("start failed", {
      cause: Object.assign(new Error(), { code, details, metadata: {} }),
    });

  const calls = async (errors: readonly Error[]) => {
    const waits: number[] = [];
    const left = [...errors];
    const outcome = await patiently(
      () => {
        const error = left.shift();
        return error === undefined ? Promise.resolve("done") : Promise.reject(error);
      },
      (ms) => Promise.resolve(waits.push(ms)),
    ).catch((error: unknown) => error);
    return { outcome, waits };
  };

  it("is waited for, ever longer and without end", async () => {
    const errors = Array.from({ length: 40 }, () => refusal(8, "namespace rate limit exceeded"));
    const { outcome, waits } = await calls(errors);
    expect(outcome).toBe("done");
    expect(waits).toHaveLength(40);
    waits.forEach((ms, at) => {
      const least = Math.min(500 * 2 ** at, 10_000);
      expect(ms).toBeGreaterThanOrEqual(least);
      expect(ms).toBeLessThanOrEqual(1.5 * least);
    });
  });

  it.each([
    ["a message that is too large", refusal(8, "Received message larger than max (5 vs 4)")],
    ["a wrong request", refusal(3, "bad")],
    ["a server that is away", refusal(14, "connection refused")],
    ["a bug", new Error("bug")],
  ])("is not %s, which fails at once", async (_name, error) => {
    const { outcome, waits } = await calls([error]);
    expect(outcome).toBe(error);
    expect(waits).toEqual([]);
  });

  it("ends where the time is over again and again", async () => {
    const errors = Array.from({ length: 9 }, () => refusal(4, "context deadline exceeded"));
    expect((await calls(errors.slice(0, 5))).outcome).toBe("done");
    const { outcome, waits } = await calls(errors);
    expect(outcome).toBe(errors[5]);
    expect(waits).toHaveLength(5);
  });
});
