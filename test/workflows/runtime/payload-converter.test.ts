import { defaultPayloadConverter, type Payload } from "@temporalio/common";
import { describe, expect, it } from "vitest";
import { MOST_LEVELS, payloadConverter } from "../../../workflows/runtime/payload-converter.ts";

const payloadOf = (data: string, encoding = "json/plain"): Payload => ({
  metadata: { encoding: Buffer.from(encoding) },
  data: Buffer.from(data),
});
const tower = (levels: number): string => "[".repeat(levels) + "]".repeat(levels);
const UNREADABLE = { kind: "unreadable", encoding: "json/plain" };

describe("what a workflow reads", () => {
  it.each([
    ["torn JSON", '{"a":'],
    ["50,000 levels", tower(50_000)],
    ["a level more than it takes", tower(MOST_LEVELS + 1)],
    ["objects in objects", `${'{"a":'.repeat(50_000)}1${"}".repeat(50_000)}`],
    ["levels behind a text", `["[[",${tower(MOST_LEVELS)}]`],
  ])("says of %s that nobody can read it", (_, text) => {
    expect(payloadConverter.fromPayload(payloadOf(text))).toEqual(UNREADABLE);
  });

  it.each([
    ["all levels that it takes", tower(MOST_LEVELS)],
    ["a text of brackets", JSON.stringify("[".repeat(50_000))],
    ["much, but flat", `[${"[],".repeat(50_000)}[]]`],
  ])("is, with %s, what was written", (_, text) => {
    const value: unknown = payloadConverter.fromPayload(payloadOf(text));
    expect(value).toEqual(defaultPayloadConverter.fromPayload(payloadOf(text)));
    // Whoever writes it again has room for it.
    expect(JSON.stringify(value)).toBe(text);
  });

  it("are bytes, whatever they would be as JSON", () => {
    const bytes: Uint8Array = payloadConverter.fromPayload(
      payloadOf(tower(50_000), "binary/plain"),
    );
    expect(bytes).toHaveLength(100_000);
  });
});
