/** @file Files of any kind are read in linear time: four times as much costs about four times as much of the processor. */
import { describe, expect, it } from "vitest";
import { documentsOf, inItsLines } from "../../cli/command/job-documents.ts";
import { readJob } from "../../client/submission.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { parseJobFile } from "../../domain/job/job-file.ts";

/** Linear is 4; a quadratic one gives 16. */
const MAX_RATIO = 9;
const SIZE = 1_000;

const lines = (count: number, line: (at: number) => string): string =>
  Array.from({ length: count }, (_, at) => line(at)).join("");

function processorMs(work: () => unknown): number {
  const before = process.cpuUsage();
  work();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000;
}

/** The least of several, of sums and of ratios: other work and the collector of garbage only add. */
function costRatio(work: (size: number) => unknown): number {
  const least = (size: number): number =>
    Math.min(...Array.from({ length: 3 }, () => processorMs(() => work(size))));
  // Below two milliseconds the clock and the compiler decide.
  const ratio = (): number => least(4 * SIZE) / Math.max(2, least(SIZE));
  let best = ratio();
  for (let more = 0; more < 3 && best >= MAX_RATIO; more += 1) best = Math.min(best, ratio());
  return best;
}

const fleetWith = (text: string): string => `name: eu\nclusters:\n${text}`;
const readFleet = (text: string): unknown =>
  parseFleetYaml(text, { file: "fleet.yaml", read: () => ({ kind: "missing", reason: "no" }) });

const FLEET_TEXTS: readonly (readonly [string, (count: number) => string])[] = [
  ["unknown keys", (count) => lines(count, (at) => `k${at}: 1\n`)],
  ["one key many times", (count) => lines(count, () => "k: 1\n")],
  ["anchors", (count) => `x:\n${lines(count, (at) => `- &a${at} 1\n`)}`],
  ["anchors and aliases", (count) => `x:\n${lines(count, (at) => `- &a${at} 1\n- *a${at}\n`)}`],
  ["clusters", (count) => fleetWith(lines(count, (at) => `- {name: c${at}, hosts: []}\n`))],
  [
    "hosts",
    (count) =>
      fleetWith(`- name: c\n  hosts:\n${lines(count, (at) => `  - {name: h${at}, gpus: x}\n`)}`),
  ],
  ["tenants", (count) => `tenants:\n${lines(count, (at) => `- {name: t${at}}\n`)}`],
  ["links", (count) => `links:\n${lines(count, (at) => `- {between: [a${at}, b${at}]}\n`)}`],
];

describe("a fleet file is read in linear time, with", () => {
  it.each(FLEET_TEXTS)("%s", (_, textOf) => {
    expect(costRatio((size) => readFleet(textOf(size)))).toBeLessThan(MAX_RATIO);
  });
});

const many = <Value>(count: number, value: (at: number) => Value): readonly Value[] =>
  Array.from({ length: count }, (_, at) => value(at));
const wide = (count: number, value: unknown): object =>
  Object.fromEntries(many(count, (at) => [`k${at}`, value]));

describe("the value of a job file is judged in linear time, with", () => {
  it.each<[string, (count: number) => object]>([
    ["unknown keys", (count) => wide(count, 1)],
    ["wrong variables", (count) => ({ run: { env: wide(count, []) } })],
    ["wrong clusters", (count) => ({ constraints: { clusters: many(count, (at) => `!${at}`) } })],
    ["many shapes", (count) => ({ gang: { gpus: 8, shapes: many(count, (at) => at) } })],
  ])("%s", (_, partsOf) => {
    expect(costRatio((size) => parseJobFile({ name: "j", ...partsOf(size) }))).toBeLessThan(
      MAX_RATIO,
    );
  });
});

it("a file of several jobs is read in linear time", () => {
  const one = (at: number): string =>
    `---\nname: j${at}\ngang: 1\nrun: { command: [x] }\n${"# x\n".repeat(20)}`;
  const read = (count: number): void => {
    for (const document of documentsOf(lines(count, one))) readJob(inItsLines(document));
  };
  expect(costRatio((size) => read(size / 10))).toBeLessThan(MAX_RATIO);
});

describe("a job file that is too large costs a moment of the processor, whatever is in it:", () => {
  it.each<[string, () => unknown, RegExp]>([
    ["a value with 100,000 unknown keys", () => wide(100_000, 1), /bytes as JSON; at most 65536/],
    ["a text with 60,000 keys", () => lines(60_000, (at) => `k${at}: 1\n`), /at most 262144/],
    ["a text with 20,000 anchors", () => lines(20_000, (at) => `- &a${at} x\n`), /65536|BAD|not/],
    [
      "a few aliases of a long text",
      () => `a: &a ${"x".repeat(100_000)}\nb: [${"*a,".repeat(50_000)}]\n`,
      /more than 4194304 bytes as JSON/,
    ],
  ])("%s", (_, valueOf, wantMessage) => {
    const value = valueOf();
    // `readJob` takes what a program hands over, whatever its type promises.
    expect(() => readJob(value as string)).toThrow(wantMessage);
    expect(processorMs(() => expect(() => readJob(value as string)).toThrow())).toBeLessThan(6_000);
  });
});

it("a value without an end, or too deep, is refused", () => {
  const cyclic: Record<string, unknown> = { name: "j" };
  cyclic["run"] = cyclic;
  // As above.
  expect(() => readJob(cyclic as never)).toThrow(/nests more than 64 levels deep/);
});
