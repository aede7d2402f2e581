/** @file A question is asked beside itself while nobody answers, and the first answer or refusal counts. */

import { describe, expect, it } from "vitest";
import { hedgedQuery } from "../../client/hedged-query.ts";

const NEVER = new Promise<string>(() => undefined);
/** Long enough that no test ever gets there. */
const HOUR_MS = 3_600_000;

describe("a question that may be lost", () => {
  it.each([
    { title: "one question when it is answered", lost: 0, afterMs: [HOUR_MS], wantAsked: 1 },
    { title: "a second when the first is lost", lost: 1, afterMs: [1, HOUR_MS], wantAsked: 2 },
    { title: "a third when both are lost", lost: 2, afterMs: [1, 2, HOUR_MS], wantAsked: 3 },
  ])("asks $title", async ({ lost, afterMs, wantAsked }) => {
    let asked = 0;
    const answer = await hedgedQuery(() => {
      asked += 1;
      return asked > lost ? Promise.resolve(`answer ${String(asked)}`) : NEVER;
    }, afterMs);
    expect(answer).toBe(`answer ${String(wantAsked)}`);
    expect(asked).toBe(wantAsked);
  });

  it("takes a refusal for an answer", async () => {
    let asked = 0;
    const refused = hedgedQuery(() => {
      asked += 1;
      return Promise.reject(new Error("no such thing"));
    }, [HOUR_MS]);
    await expect(refused).rejects.toThrow("no such thing");
    expect(asked).toBe(1);
  });

  it("takes the late answer to the first question as well", async () => {
    let give: (answer: string) => void = () => undefined;
    const first = new Promise<string>((resolve) => (give = resolve));
    let asked = 0;
    const answer = await hedgedQuery(() => {
      asked += 1;
      if (asked === 1) return first;
      give("the first");
      return NEVER;
    }, [1]);
    expect(answer).toBe("the first");
  });
});
