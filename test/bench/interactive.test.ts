/** @file What a session of `bench interactive` has to say, word for word: a wrong answer, none, and an end are never a figure. */

import { expect, it } from "vitest";
import { openHeard } from "../../bench/interactive/heard.ts";

it("takes a text that comes in parts, and the next one after it", async () => {
  const heard = openHeard();
  heard.add(Buffer.from("a"));
  const both = heard.until("ab").then(() => heard.until("c"));
  heard.add(Buffer.from("bc"));
  await expect(both).resolves.toBeUndefined();
});

it("refuses another text", async () => {
  const heard = openHeard();
  heard.add(Buffer.from("ax"));
  await expect(heard.until("ab")).rejects.toThrow(/"ax" came for "ab"/);
});

it("fails once the session is over, with its reason", async () => {
  const ended = openHeard();
  const waits = expect(ended.until("a")).rejects.toThrow(/the session has ended/);
  await ended.endsWith(Promise.resolve());
  await waits;
  const refused = openHeard();
  await refused.endsWith(Promise.reject(new Error("too many sessions")));
  await expect(refused.until("a")).rejects.toThrow(/too many sessions/);
});
