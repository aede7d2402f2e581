/** @file The output of one of several ranks: whole lines with its prefix, cut where a line would never end. */

import { expect, it } from "vitest";
import { prefixed } from "../../client/job-logs.ts";

async function shown(texts: readonly string[]): Promise<readonly string[]> {
  async function* source(): AsyncGenerator<string> {
    for (const text of texts) yield await Promise.resolve(text);
  }
  const out: string[] = [];
  for await (const text of prefixed(source(), "[3] ")) out.push(text);
  return out;
}

it("lines are whole, and the last one is closed", async () => {
  expect(await shown(["a\nb", "c\nd"])).toEqual(["[3] a\n", "[3] bc\n", "[3] d\n"]);
});

it("a carriage return ends a line, and one with a newline is one end", async () => {
  expect(await shown(["10%\r20%\r30%"])).toEqual(["[3] 10%\n[3] 20%\n", "[3] 30%\n"]);
  expect(await shown(["a\r", "\nb\r\n"])).toEqual(["[3] a\n[3] b\n"]);
});

it("a line without an end is cut, so that no more of it is held", async () => {
  const out = await shown(["x".repeat(40_000), "x".repeat(40_000), "x"]);
  expect(out.map((text) => text.length)).toEqual([65_536 + 5, 14_465 + 5]);
});
