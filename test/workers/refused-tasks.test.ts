/** @file What workers of the control plane have refused: a row for each sender, whichever worker of the machine it was, and no more writes than the clock allows. */

import { expect, it } from "vitest";
import { MOST_REFUSED_SENDERS, OTHERS } from "../../domain/lease/refused-order.ts";
import { readRefusedTasks, refusedTasks, type RefusedTasks } from "../../workers/refused-tasks.ts";
import { FakeMachine } from "../agent/fakes.ts";

const SETTING = { stateDir: "/state", taskQueue: "jobs", onTrouble: () => undefined };
const task = (sender: string) => ({ sender, order: "tellFleet", why: "it is not encrypted" });

const told = (machine: FakeMachine): readonly (readonly [string, number])[] =>
  readRefusedTasks(machine.system().files, "/state").flatMap(([, rows]) =>
    rows.map(({ sender, times }) => [sender, times] as const),
  );

function flood(tasks: RefusedTasks, from: number, count: number): void {
  for (let at = from; at < from + count; at += 1) tasks.note(task(`w-${String(at)}`));
}

it("is told by all workers of a queue together, at once and then with the next second", async () => {
  const machine = new FakeMachine();
  const [one, two] = [
    refusedTasks(machine.system(), SETTING),
    refusedTasks(machine.system(), SETTING),
  ];
  expect(told(machine)).toEqual([]);
  one.note(task("mallory"));
  two.note(task("mallory"));
  one.note(task("mallory"));
  one.note(task("eve"));
  expect(told(machine)).toEqual([["mallory", 2]]);
  await machine.pass(1_000);
  expect(told(machine)).toEqual([
    ["mallory", 3],
    ["eve", 1],
  ]);
});

it("keeps so many rows and counts every refusal, however many senders there are", async () => {
  const machine = new FakeMachine();
  const tasks = refusedTasks(machine.system(), SETTING);
  flood(tasks, 0, 40);
  await machine.pass(1_000);
  flood(tasks, 40, 40);
  await machine.pass(2_000);
  const rows = told(machine);
  expect(rows).toHaveLength(MOST_REFUSED_SENDERS);
  expect(rows.reduce((sum, [, times]) => sum + times, 0)).toBe(80);
  expect(rows.some(([sender]) => sender === OTHERS)).toBe(true);
});

it("is not written again and again where it cannot be written: the next refusal tries again, and the process may end", async () => {
  const machine = new FakeMachine();
  const troubles: string[] = [];
  const { files, clock } = machine.system();
  let isFull = true;
  const write = (path: string, text: string): void => {
    if (isFull) throw new Error("the disk is full");
    files.write(path, text);
  };
  const onTrouble = (why: string): unknown => troubles.push(why);
  const tasks = refusedTasks({ files: { ...files, write }, clock }, { ...SETTING, onTrouble });
  flood(tasks, 0, 3);
  await machine.pass(60_000);
  expect(troubles).toEqual([expect.stringContaining("the disk is full")]);
  isFull = false;
  flood(tasks, 3, 1);
  expect(told(machine).map(([sender]) => sender)).toEqual(["w-0", "w-1", "w-2", "w-3"]);
});
