/** @file Job files as YAML text: every problem at the line and column of the thing that is wrong. */

import { describe, expect, it } from "vitest";
import { parseJobYaml } from "../../domain/job/job-file.ts";
import { yamlProblems } from "./job-text.ts";

const REST = 'run: { command: ["true"] }\n';

describe("a problem of a job file stands where the thing stands", () => {
  it.each([
    [
      "a wrong value",
      `name: a\ngang:\n  gpus: -1\n${REST}`,
      "job.yaml:3:9 gang.gpus: -1 is too small; write a whole number from 1 to 100000",
    ],
    [
      "an unknown key",
      `name: a\ngang:\n  gpus: 8\n  gpu: 8\n${REST}`,
      "job.yaml:4:3 gang.gpu: unknown key `gpu`; did you mean `gpus`?",
    ],
    [
      "a missing key, at the map that lacks it",
      `name: a\ngang:\n  min: 1\n${REST}`,
      "job.yaml:2:1 gang.gpus: missing; write a whole number from 1 to 100000",
    ],
    [
      "a value that was forgotten",
      `name: a\ngang:\n${REST}`,
      "job.yaml:2:6 gang: null is not a whole number; write a whole number from 1 to 100000",
    ],
    [
      "an item of a list",
      `name: a\ngang: { gpus: 8, shapes: [8, 16] }\n${REST}`,
      "job.yaml:2:30 gang.shapes[1]: 16 is more than gang.gpus, 8; leave it out, or raise gang.gpus",
    ],
    [
      "a bare number",
      `name: a\ngang: 1\ndeadline: 30\n${REST}`,
      "job.yaml:3:11 deadline: 30 has no unit; write 30s",
    ],
    [
      "the whole, when it is a list",
      "- a\n- b\n",
      /^job\.yaml:1:1: a list of 2 is not a map; write a map with the keys name/,
    ],
    [
      "the whole, when it is empty",
      "# nothing\n",
      /^job\.yaml:1:1: the file is empty; write a map/,
    ],
    [
      "the whole, when it is null",
      "---\n",
      /^job\.yaml:\d+:\d+: (the file is empty|null is not a map)/,
    ],
    [
      "a value behind an alias",
      `name: a\ngang: &g {gpus: 0}\n${REST}model: *g\n`,
      /^job\.yaml:2:17 gang\.gpus: 0 is too small/,
    ],
    ["Windows line ends", `name: a\r\ngang: 0\r\n${REST}`, /^job\.yaml:2:7 gang: 0/],
    [
      "a place far down in its file",
      `${"\n".repeat(300_000)}name: a\ngang: 0\n${REST}`,
      /^job\.yaml:300002:7 gang: 0/,
    ],
    ["a byte-order mark", `\ufeffname: a\ngang: 0\n${REST}`, /^job\.yaml:2:7 gang: 0/],
  ])("%s", (_, text, want) => {
    const [problem] = yamlProblems(text);
    expect(problem).toMatch(want);
    if (typeof want === "string") expect(problem).toBe(want);
  });

  it("all problems of a file come at once, in its order", () => {
    const text = [
      "name: a",
      "tenant: 5",
      "name: b",
      "gang: { gpus: 4, min: 8 }",
      "model: *nowhere",
      "run:",
      "  command: [x]",
      "  grace: 5 min",
    ].join("\n");
    expect(yamlProblems(text)).toEqual([
      'job.yaml:2:9 tenant: 5 is a number, not text; put it in quotes: "5"',
      "job.yaml:3:1 name: key `name` is written twice, first in line 1; keep one of the two",
      "job.yaml:4:23 gang.min: 8 is more than gang.gpus, 4; write at most 4",
      'job.yaml:5:8 model: alias "*nowhere" names nothing; write the value, or mark it with &nowhere before',
      "job.yaml:5:8 model: null is not text; write text such as gpt2-large",
      'job.yaml:8:10 run.grace: unit "min" is unknown; write 5m',
    ]);
  });
});

describe("what is no YAML, or more than people mean, is refused with its place", () => {
  it.each([
    ["an unclosed list", "name: a\ngang: [1\n", /^job\.yaml:3:1: not YAML: Flow sequence/],
    [
      "a tab",
      "gang:\n\tgpus: 8\n",
      /^job\.yaml:2:1: not YAML: Tabs are not allowed as indentation; indent with spaces$/,
    ],
    [
      "bad indentation",
      "gang:\n    gpus: 8\n  min: 1\n",
      /^job\.yaml:3:\d+: not YAML: All mapping items must start at the same column/,
    ],
    [
      "a second document",
      "name: a\n---\nname: b\n",
      /^job\.yaml:2:1: a second document begins; the file has 2; write one file for each$/,
    ],
    [
      "a tag",
      "name: !secret a\n",
      /^job\.yaml:1:7: not YAML: Unresolved tag: !secret; leave the tag out$/,
    ],
    ["YAML 1.1", "%YAML 1.1\n---\nname: no\n", /^job\.yaml:1:1: the document is YAML 1\.1/],
    ["a list as a key", "? [a]\n: b\n", /^job\.yaml:1:3: a list or map stands as a key/],
    [
      "an alias inside itself",
      "name: &n [*n]\n",
      /^job\.yaml:1:11 name\[0\]: alias "\*n" stands inside what it names/,
    ],
    [
      "a text that is too long",
      `# ${"x".repeat(1024 * 1024)}`,
      /^job\.yaml:1:1: 1048578 characters are too many/,
    ],
    [
      "an endless nesting",
      "[".repeat(100_000),
      /^job\.yaml:1:\d+: not YAML: .*; nest less deeply$/,
    ],
  ])("%s", (_, text, want) => {
    expect(yamlProblems(text)).toContainEqual(expect.stringMatching(want));
  });

  it("a bomb of aliases costs nothing and is named as such", () => {
    const levels = [..."bcdefghijklmno"];
    const names = ["a", ...levels];
    const text = [
      "a: &a [x, x, x, x, x, x, x, x, x, x]",
      ...levels.map(
        (name, index) => `${name}: &${name} [${Array(10).fill(`*${names[index]}`).join(", ")}]`,
      ),
    ].join("\n");
    expect(yamlProblems(text).some((problem) => problem.includes("more than 200000 values"))).toBe(
      true,
    );
  });

  it("twenty thousand keys in one map are a hundred problems and one that counts the rest", () => {
    const text = Array.from({ length: 20_000 }, (_, index) => `k${index}: 1`).join("\n");
    const problems = yamlProblems(text);
    expect(problems).toHaveLength(101);
    expect(problems.at(-1)).toMatch(/and \d+ more problems from here on/);
  });

  it("a word that YAML 1.1 would take for a truth value is text", () => {
    const parsed = parseJobYaml(`name: no\ngang: 1\ntenant: on\n${REST}`, { file: "job.yaml" });
    expect(parsed).toMatchObject({ kind: "parsed", spec: { name: "no", tenant: "on" } });
  });
});
