/** @file A serving plan comes from a user's file: whatever stands in it, it is read within bounds, or refused with its place. */

import { expect, it } from "vitest";
import { parseServingPlan } from "../../../domain/model/serving-plan.ts";

const GOOD = {
  ...{ version: 1, model: { name: "m.onnx", sha256: "a".repeat(64) }, gpus: 2 },
  parts: [
    { gpu: 0, operators: "0-3,5" },
    { gpu: 1, operators: "4" },
  ],
};
const read = (value: unknown) =>
  parseServingPlan(typeof value === "string" ? value : JSON.stringify(value), { file: "m.plan" });
const parts = (...operators: string[]) => ({
  ...GOOD,
  parts: operators.map((ranges) => ({ gpu: 0, operators: ranges })),
});

it("is read", () => {
  expect(read(GOOD)).toMatchObject({
    kind: "parsed",
    plan: { gpus: 2, parts: [{ gpu: 0, operators: [0, 1, 2, 3, 5] }, { operators: [4] }] },
  });
});

it.each<readonly [what: string, plan: unknown, why: RegExp]>([
  ["no JSON", "{", /JSON/],
  ["a list", [], /the whole/],
  ["null", null, /the whole/],
  ["a key of a prototype", `{"__proto__": {"gpus": 1}, ${JSON.stringify(GOOD).slice(1)}`, /whole/],
  ["a key of the constructor", { ...GOOD, constructor: { prototype: { gpus: 1 } } }, /whole/],
  ["a key that nobody reads", { ...GOOD, model: { ...GOOD.model, path: "/etc/shadow" } }, /model/],
  ["a hash that is a path", { ...GOOD, model: { name: "m", sha256: "../../x" } }, /sha256/],
  ["no GPU", { ...GOOD, gpus: 0 }, /gpus/],
  ["more GPUs than hosts have", { ...GOOD, gpus: 65 }, /gpus/],
  ["half a GPU", { ...GOOD, gpus: 1.5 }, /gpus/],
  ["a number beyond numbers", JSON.stringify(GOOD).replace(`"gpus":2`, `"gpus":1e999`), /gpus/],
  ["a GPU that is not there", { ...GOOD, parts: [{ gpu: 2, operators: "0" }] }, /parts\.0\.gpu/],
  ["a negative GPU", { ...GOOD, parts: [{ gpu: -1, operators: "0" }] }, /parts\.0\.gpu/],
  ["no parts", { ...GOOD, parts: [] }, /parts/],
  ["negative places", parts("-1"), /parts\.0\.operators/],
  ["words for places", parts("0-x"), /parts\.0\.operators/],
  ["too long a range", parts("0-9999999"), /parts\.0\.operators: more than/],
  ["too many ranges", parts(Array(9).fill("0-999999").join(",")), /parts\.0\.operators: more than/],
  ["too much in all parts", parts(...Array<string>(1_000).fill("0-999999")), /parts\.1\.operators/],
  ["negative times", { ...GOOD, expectedMs: -1 }, /expectedMs/],
])("is refused with %s", (_what, plan, why) => {
  const answer = read(plan);
  expect(answer).toMatchObject({ kind: "refused" });
  expect(answer.kind === "refused" && answer.message).toMatch(why);
});
