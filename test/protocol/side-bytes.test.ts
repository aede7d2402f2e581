/** @file What counts of a history beside the value of a signal: all that anybody may make large. */

import { expect, it } from "vitest";
import { sideBytes } from "../../protocol/side-bytes.ts";

const MEBIBYTE = 2 ** 20;
const part = (bytes: number, metadata = 10) => ({
  data: new Uint8Array(bytes),
  metadata: { encoding: new Uint8Array(metadata) },
});
const NOTHING = { payloads: [], headers: {}, names: [] };

it.each([
  ["nothing", NOTHING, undefined],
  [
    "a proof and names of usual lengths",
    {
      payloads: [part(9 * MEBIBYTE)],
      headers: { proof: part(400) },
      names: ["123@host", "inbox", undefined],
    },
    undefined,
  ],
  ["a second payload", { ...NOTHING, payloads: [part(7), part(MEBIBYTE)] }, MEBIBYTE],
  ["empty payloads", { ...NOTHING, payloads: Array<object>(2 ** 19).fill({}) }, MEBIBYTE],
  ["metadata", { ...NOTHING, payloads: [part(7, MEBIBYTE)] }, MEBIBYTE],
  ["a header", { ...NOTHING, headers: { x: part(MEBIBYTE) } }, MEBIBYTE],
  ["the key of a header", { ...NOTHING, headers: { ["x".repeat(MEBIBYTE)]: part(1) } }, MEBIBYTE],
  ["a sender's name beyond ASCII", { ...NOTHING, names: ["€".repeat(2 ** 12)] }, 3 * 2 ** 12],
  ["a key beyond ASCII", { ...NOTHING, headers: { ["€".repeat(2 ** 12)]: {} } }, 3 * 2 ** 12],
  ["a sender's name", { ...NOTHING, names: ["m".repeat(MEBIBYTE), null] }, MEBIBYTE],
])("%s", (_, parts, want) => {
  expect(sideBytes(parts).sideBytes).toBe(want);
});
