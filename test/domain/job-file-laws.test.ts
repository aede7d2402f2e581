/** @file Laws of job files: what is right is read, every mutation is named, and nothing from outside makes the parser throw. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { durationText, memoryText } from "../../domain/values/dimensions.ts";
import { parseJobFile, parseJobYaml, type JobFile } from "../../domain/job/job-file.ts";
import { JOB_JSON_SCHEMA } from "../../domain/job/job-schema.ts";
import { FULL_JOB, problemsOf, SMALL_JOB } from "./job-text.ts";
import { caseCount } from "../support/case-count.ts";

const optional = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined });
const word = fc
  .stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,12}$/)
  .filter((text) => !(text in Object.prototype));
const words = fc.array(word, { minLength: 1, maxLength: 4 });
const duration = fc.integer({ min: 1, max: 1e9 }).map(durationText);
const command = fc.oneof(
  fc.string({ minLength: 1 }).filter((text) => !text.includes("\0")),
  fc.tuple(word, fc.array(word, { maxLength: 3 })).map(([program, rest]) => [program, ...rest]),
);
const gang = fc.oneof(
  fc.integer({ min: 1, max: 100_000 }),
  fc
    .record({
      gpus: fc.integer({ min: 1, max: 64 }),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    })
    .chain(({ gpus, part }) => {
      const min = Math.max(1, Math.floor(gpus * part));
      const shapes = fc.uniqueArray(fc.integer({ min, max: gpus }), { minLength: 1, maxLength: 5 });
      return fc.record({
        gpus: fc.constant(gpus),
        min: fc.constant(min),
        timeout: optional(duration),
        shapes: optional(shapes),
      });
    }),
);

/** Absent keys are absent, not undefined, as in any decoded JSON. */
const jobFile = fc
  .record({
    name: word,
    tenant: optional(word),
    class: optional(fc.constantFrom("inference", "interactive", "training")),
    priority: optional(fc.integer({ min: -1000, max: 1000 })),
    gang,
    constraints: optional(
      fc.record({
        jurisdictions: optional(words),
        gpuTypes: optional(words),
        memory: optional(fc.integer({ min: 1, max: 1024 }).map(memoryText)),
        sameHost: optional(fc.boolean()),
      }),
    ),
    run: fc.record({
      command,
      grace: optional(duration),
      launch: optional(fc.constantFrom("per-gpu", "per-host")),
    }),
    retry: optional(
      fc.record({
        attempts: optional(fc.integer({ min: 1, max: 100 })),
        backoff: optional(duration),
      }),
    ),
    deadline: optional(duration),
    hold: optional(fc.boolean()),
  })
  .map((file): unknown => JSON.parse(JSON.stringify(file)));

describe("job files obey", () => {
  it("a random right file is read, as JSON and as YAML, into the same spec", () => {
    fc.assert(
      fc.property(jobFile, (file) => {
        const parsed = parseJobFile(file);
        expect(parsed.kind).toBe("parsed");
        expect(parseJobYaml(JSON.stringify(file), { file: "job.yaml" })).toEqual(parsed);
      }),
    );
  });

  it("a file that the parser reads is right for editors too", () => {
    const editor = z.fromJSONSchema(JSON.parse(JSON.stringify(JOB_JSON_SCHEMA)));
    fc.assert(
      fc.property(jobFile, (file) => {
        expect(editor.safeParse(file).error).toBeUndefined();
      }),
      { numRuns: caseCount(50) },
    );
    expect(editor.safeParse(FULL_JOB).error).toBeUndefined();
    expect(editor.safeParse({ ...FULL_JOB, gpus: 8 }).success).toBe(false);
  });

  it("every key that is renamed is named, with the one that was meant", () => {
    for (const path of keyPaths(FULL_JOB)) {
      const renamed = changed(FULL_JOB, path, (map, key) => rename(map, key, `${key}x`));
      expect(problemsOf(renamed).join("\n")).toContain(`${textOf(path)}x: unknown key`);
    }
  });

  it("every value that is replaced by what it cannot be is named", () => {
    for (const path of keyPaths(FULL_JOB)) {
      // No key of a job file takes a function's name for a value of another kind: a list of a map fits nowhere.
      const broken = changed(FULL_JOB, path, (map, key) => ({ ...map, [key]: [{}] }));
      const text = textOf(path);
      const problems = problemsOf(broken);
      expect(problems.some((problem) => problem.startsWith(text))).toBe(true);
    }
  });

  it("every required key that is taken away is missed", () => {
    for (const path of [
      ["name"],
      ["gang"],
      ["run"],
      ["gang", "gpus"],
      ["run", "command"],
      ["array", "count"],
    ]) {
      const broken = changed(FULL_JOB, path, (map, key) => without(map, key));
      expect(problemsOf(broken).join("\n")).toContain(`${textOf(path)}: missing`);
    }
  });

  it("no JSON makes the parser throw, and a refusal has at least one problem", () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.anything()), (value) => {
        const parsed = parseJobFile(value);
        if (parsed.kind === "refused") expect(parsed.problems.length).toBeGreaterThan(0);
      }),
    );
  });

  it("no value in any place makes the parser throw", () => {
    const paths = keyPaths(FULL_JOB);
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.anything(), (path, value) => {
        const file = changed(FULL_JOB, path, (map, key) => ({ ...map, [key]: value }));
        expect(["parsed", "refused"]).toContain(parseJobFile(file).kind);
      }),
      { numRuns: caseCount(500) },
    );
  });

  it("no text makes the parser throw, and each problem has a place inside the text", () => {
    const piece = fc.constantFrom(
      "a",
      ":",
      " ",
      "\n",
      "  ",
      "- ",
      "[",
      "]",
      "{",
      "}",
      "&x",
      "*x",
      "!t",
      '"',
      "'",
      "|",
      ">",
      "#",
      "?",
      "---\n",
      "\t",
      "gang",
      "gpus",
      "8",
      ",",
      "%YAML 1.2\n",
    );
    const text = fc.oneof(
      fc.string({ unit: "binary" }),
      fc.array(piece, { maxLength: 40 }).map((parts) => parts.join("")),
    );
    fc.assert(
      fc.property(text, (source) => {
        const parsed = parseJobYaml(source, { file: "job.yaml" });
        expect(parsed.kind).toBe("refused");
        if (parsed.kind !== "refused") return;
        const lineCount = source.split("\n").length;
        for (const { line, column, message } of parsed.problems) {
          expect(line).toBeGreaterThanOrEqual(1);
          expect(line).toBeLessThanOrEqual(lineCount);
          expect(column).toBeGreaterThanOrEqual(1);
          expect(message).not.toMatch(/[\u0000-\u001f]/);
        }
      }),
      { numRuns: caseCount(1000) },
    );
  });

  it("what its type allows a program to write is accepted", () => {
    const file: JobFile = { ...SMALL_JOB, class: "inference", gang: { gpus: 2 }, deadline: "1h" };
    expect(parseJobFile(file).kind).toBe("parsed");
  });
});

type JsonMap = Readonly<Record<string, unknown>>;

const isMap = (value: unknown): value is JsonMap =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Of every key that the schema knows; the names in `env` are the author's own. */
function keyPaths(value: JsonMap, above: readonly string[] = []): string[][] {
  return Object.entries(value).flatMap(([key, inside]) => {
    const path = [...above, key];
    return isMap(inside) && key !== "env" ? [path, ...keyPaths(inside, path)] : [path];
  });
}

function changed(
  value: JsonMap,
  [key = "", ...rest]: readonly string[],
  change: (map: JsonMap, key: string) => JsonMap,
): JsonMap {
  if (rest.length === 0) return change(value, key);
  const inside = value[key];
  return { ...value, [key]: changed(isMap(inside) ? inside : {}, rest, change) };
}

const without = (map: JsonMap, key: string): JsonMap =>
  Object.fromEntries(Object.entries(map).filter(([each]) => each !== key));

const rename = (map: JsonMap, key: string, to: string): JsonMap => ({
  ...without(map, key),
  [to]: map[key],
});

const textOf = (path: readonly string[]): string => path.join(".");
