/** Names with wildcards: the same jobs as a regular expression would find, and never its costs. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { jobFits } from "../../client/job-filter.ts";
import { jobId } from "../../domain/values/ids.ts";

const isFound = (pattern: string, name: string): boolean =>
  jobFits({ name: pattern })({
    jobId: jobId("none"),
    name,
    state: "running",
    clusters: [],
    hosts: [],
    submittedAtMs: 0,
  });

it("finds what a regular expression finds", () => {
  const text = (most: number, letters: readonly string[]) =>
    fc.array(fc.constantFrom(...letters), { maxLength: most }).map((each) => each.join(""));
  fc.assert(
    fc.property(text(8, ["a", "b", ".", "*", "?"]), text(8, ["a", "b", "."]), (pattern, name) => {
      const source = pattern.replaceAll(".", "\\.").replaceAll(/\*+/g, ".*").replaceAll("?", ".");
      const isId = new RegExp(`^${source}$`).test("none");
      expect(isFound(pattern, name)).toBe(isId || new RegExp(`^${source}$`).test(name));
    }),
  );
});

it("ends at once with a thousand stars", () => {
  const pattern = "*?".repeat(500);
  expect(isFound(pattern, "a".repeat(200))).toBe(false);
  expect(isFound(`${"*a".repeat(200)}b`, "a".repeat(200))).toBe(false);
  expect(isFound("*?".repeat(100), "a".repeat(200))).toBe(true);
});
