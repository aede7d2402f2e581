import { describe, expect, it } from "vitest";
import { openJournal, readTurns } from "../../../agent/folder/slot-journal.ts";
import { FakeMachine, Killed } from "../fakes.ts";

const PATH = "/launch/turns/journal";
const start = (task: number) => ({ kind: "start", task, slot: 0, atMs: 1 }) as const;

describe("the journal of a batch", () => {
  it("does not count a line that a killed shim wrote in part", () => {
    const machine = new FakeMachine();
    const system = machine.system();
    const journal = openJournal(system, PATH, () => undefined);
    journal.write(start(1));
    machine.faultOf = ({ kind }) => (kind === "append" ? "cut" : undefined);
    // The port has died in the middle; a real shim would not get this error.
    expect(() => {
      machine.system().files.openAppender(PATH).write(Buffer.from('{"kind":"start","task":2}\n'));
    }).toThrow(Killed);
    expect([...readTurns(system.files, PATH).keys()]).toEqual([1]);
  });

  it("is behind while the disk takes nothing, and catches up by itself every half second", async () => {
    const machine = new FakeMachine();
    const system = machine.system();
    let caughtUp = 0;
    const journal = openJournal(system, PATH, () => (caughtUp += 1));
    machine.faultOf = () => "ENOSPC";
    journal.write(start(1));
    journal.write(start(2));
    await machine.pass(1_100);
    expect([journal.isBehind(), caughtUp]).toEqual([true, 0]);
    machine.faultOf = () => undefined;
    await machine.pass(399);
    expect(journal.isBehind()).toBe(true);
    await machine.pass(1);
    expect([journal.isBehind(), caughtUp]).toEqual([false, 1]);
    expect([...readTurns(system.files, PATH).keys()]).toEqual([1, 2]);
  });
});
