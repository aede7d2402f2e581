/** @file Plans that are kept: for the same file, lanes and host they are not made again; for another they are. */

import { mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { keepingPlans } from "../../../activities/launch-extras/kept-plans.ts";
import type { PlannerAnswer, PlannerTask } from "../../../activities/serving-planner-port.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-kept-plans-"));
afterAll(() => rmSync(folder, { recursive: true }));
let number = 0;
const newFolder = (): string => join(folder, `plans-${String((number += 1))}`);
const file = join(folder, "m.onnx");
writeFileSync(file, "one");

const planned = (name: string): PlannerAnswer => ({
  kind: "planned",
  plan: {
    model: { name, sha256: "0".repeat(64) },
    gpus: 1,
    parts: [{ gpu: 0, operators: [0, 1] }],
  },
});
const task = (of: Partial<PlannerTask> = {}): PlannerTask => ({
  file,
  gpus: 1,
  options: { devices: "cpu", bindings: new Map([["batch", 2]]) },
  ...of,
});
const signal = new AbortController().signal;

/** Counts what is planned, and names plans by that count. */
function planner(answer: (count: number) => PlannerAnswer = (count) => planned(String(count))) {
  let count = 0;
  return {
    count: () => count,
    make: (): Promise<PlannerAnswer> => {
      count += 1;
      return Promise.resolve(answer(count));
    },
  };
}

describe("a plan that was made", () => {
  it("serves the next start, also that of another worker over the same folder", async () => {
    const dir = newFolder();
    const { make, count } = planner();
    const first = await keepingPlans(dir, make)(task(), signal);
    expect(first).toEqual({ answer: planned("1"), isKept: false });
    const second = await keepingPlans(dir, make)(task(), signal);
    expect(second).toEqual({ answer: planned("1"), isKept: true });
    expect(count()).toBe(1);
  });

  it.each([
    ["lanes", task({ gpus: 2 })],
    ["devices", task({ options: { devices: "cuda", bindings: new Map([["batch", 2]]) } })],
    ["sizes", task({ options: { devices: "cpu", bindings: new Map([["batch", 3]]) } })],
  ])("is not for other %s", async (_, other) => {
    const dir = newFolder();
    const plan = keepingPlans(dir, planner().make);
    await plan(task(), signal);
    expect(await plan(other, signal)).toEqual({ answer: planned("2"), isKept: false });
  });

  it("is not for a file that was replaced", async () => {
    const dir = newFolder();
    const plan = keepingPlans(dir, planner().make);
    await plan(task(), signal);
    writeFileSync(file, "another");
    expect(await plan(task(), signal)).toMatchObject({ isKept: false });
  });

  it.each(["{", "", "null", "[]"])("is made again where the kept one is %j", async (text) => {
    const dir = newFolder();
    const plan = keepingPlans(dir, planner().make);
    await plan(task(), signal);
    for (const name of readdirSync(dir)) writeFileSync(join(dir, name), text);
    expect(await plan(task(), signal)).toEqual({ answer: planned("2"), isKept: false });
    expect(await plan(task(), signal)).toMatchObject({ isKept: true });
  });

  it("leaves nothing half-written where it cannot be put in its place", async () => {
    const dir = newFolder();
    const plan = keepingPlans(dir, planner().make);
    await plan(task(), signal);
    const [name = ""] = readdirSync(dir);
    rmSync(join(dir, name));
    mkdirSync(join(dir, name));
    expect(await plan(task(), signal)).toEqual({ answer: planned("2"), isKept: false });
    expect(readdirSync(dir)).toEqual([name]);
  });

  it("is given although it cannot be kept", async () => {
    const plan = keepingPlans(join(file, "no-folder"), planner().make);
    expect(await plan(task(), signal)).toEqual({ answer: planned("1"), isKept: false });
  });
});

it("keeps no refusal", async () => {
  const dir = newFolder();
  const { make } = planner((count) =>
    count === 1 ? { kind: "refused", message: "no" } : planned("later"),
  );
  const plan = keepingPlans(dir, make);
  expect((await plan(task(), signal)).answer.kind).toBe("refused");
  expect(await plan(task(), signal)).toEqual({ answer: planned("later"), isKept: false });
});

it("forgets the least lately used plans first", async () => {
  const dir = newFolder();
  const plan = keepingPlans(dir, planner().make, 2);
  await plan(task({ gpus: 1 }), signal);
  const [first = ""] = readdirSync(dir);
  await plan(task({ gpus: 2 }), signal);
  for (const name of readdirSync(dir)) {
    // The second one was used an hour ago, the first one longer ago, until it is used again.
    const ago = name === first ? 7_200 : 3_600;
    utimesSync(join(dir, name), Date.now() / 1_000 - ago, Date.now() / 1_000 - ago);
  }
  expect(await plan(task({ gpus: 1 }), signal)).toMatchObject({ isKept: true });
  await plan(task({ gpus: 3 }), signal);
  expect(readdirSync(dir)).toHaveLength(2);
  expect(await plan(task({ gpus: 1 }), signal)).toMatchObject({ isKept: true });
  expect(await plan(task({ gpus: 2 }), signal)).toMatchObject({ isKept: false });
});
