/** @file A question whose worker drops the run in that moment is asked again; every other refusal is told. */
import { QueryNotRegisteredError, type Client } from "@temporalio/client";
import { describe, expect, it, vi } from "vitest";
import { queried, WAKE_AFTER_MS, WAKE_AGAIN_MS } from "../../client/waking.ts";
import { FLEET_TASK_QUEUE, UNTIMELY_NEWS } from "../../protocol/messages.ts";

const INVALID_ARGUMENT = 3;
/** Nothing of it is reached but the deadline. */
const client = {
  withDeadline: (_deadline: number, call: () => Promise<unknown>) => call(),
} as Pick<Client, "withDeadline"> as Client;

/** Refused so many times with this text, then answered. */
function refusing(times: number, text: string): { asked: number; query: () => Promise<string> } {
  const question = {
    asked: 0,
    query: () => {
      question.asked += 1;
      return question.asked > times
        ? Promise.resolve("answer")
        : Promise.reject(new QueryNotRegisteredError(text, INVALID_ARGUMENT));
    },
  };
  return question;
}

describe("a question", () => {
  it("that came with news of no task is asked again", async () => {
    const { query } = refusing(1, `failed: ${UNTIMELY_NEWS}`);
    const answer = await queried(client, "fleet x", { taskQueue: FLEET_TASK_QUEUE, query });
    expect(answer).toBe("answer");
  });

  it("that is refused for anything else is not", async () => {
    const question = refusing(1, "boom");
    const answer = queried(client, "fleet x", {
      taskQueue: FLEET_TASK_QUEUE,
      query: question.query,
    });
    await expect(answer).rejects.toMatchObject({ code: "NOT_ALLOWED" });
    expect(question.asked).toBe(1);
  });

  it("wakes a worker again while nobody answers, and no more after the answer", async () => {
    vi.useFakeTimers();
    try {
      let wakes = 0;
      const waking = {
        ...client,
        workflow: { start: () => Promise.resolve((wakes += 1)) },
      } as unknown as Client;
      let answer = (_: string): void => undefined;
      const answered = new Promise<string>((resolve) => (answer = resolve));
      const asking = queried(waking, "fleet x", {
        taskQueue: FLEET_TASK_QUEUE,
        query: () => answered,
      });
      await vi.advanceTimersByTimeAsync(WAKE_AFTER_MS + 2 * WAKE_AGAIN_MS);
      expect(wakes).toBe(3);
      answer("answer");
      expect(await asking).toBe("answer");
      await vi.advanceTimersByTimeAsync(10 * WAKE_AGAIN_MS);
      expect(wakes).toBe(3);
    } finally {
      vi.useRealTimers();
    }
  });
});
