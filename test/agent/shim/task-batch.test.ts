import { describe, expect, it } from "vitest";
import {
  launchFiles,
  type LaunchPlan,
  type LaunchStatus,
} from "../../../agent/folder/launch-files.ts";
import { readTurns } from "../../../agent/folder/slot-journal.ts";
import { superviseBatch } from "../../../agent/shim/task-batch.ts";
import { noteStops } from "../../../agent/shim/task-stop.ts";
import { FakeMachine } from "../fakes.ts";

/** A batch of tasks 0 to 4 in two slots. */
function batch() {
  const machine = new FakeMachine();
  const system = machine.system();
  const files = launchFiles("/host/leases/l/batches/1");
  system.files.makeFolder(files.dir);
  const statuses: LaunchStatus[] = [];
  const plan: LaunchPlan = {
    command: ["task"],
    cwd: "/",
    ranks: [],
    graceMs: 1_000,
    log: { partBytes: 1_000, parts: 2 },
  };
  const launch = { files, system };
  superviseBatch({
    launch,
    plan,
    batch: {
      tasks: [0, 1, 2, 3, 4].map((task) => ({ task, checkpointDir: `/ckpt/${task}` })),
      count: 5,
      slots: [0, 1].map((slot) => [{ rank: 0, env: { SLOT: String(slot) } }]),
      isPortAgreed: false,
      leaseDir: "/host/leases/l",
    },
    writeStatus: (status) => statuses.push(status),
  });
  const running = () =>
    [...machine.running.values()].map(
      ({ order }) => `${order.env["ARRAY_INDEX"]}@${order.env["SLOT"]}`,
    );
  const end = async (task: number, exitCode = 0): Promise<void> => {
    for (const process of machine.running.values())
      if (process.order.env["ARRAY_INDEX"] === String(task)) process.end({ exitCode });
    await machine.pass(50);
  };
  const turns = () => readTurns(system.files, files.journal);
  return { machine, launch, statuses, running, end, turns };
}

describe("a batch of array tasks", () => {
  it("gives a free slot to the next task, and ends when the last has ended", async () => {
    const { machine, statuses, running, end } = batch();
    await machine.pass(50);
    expect(running()).toEqual(["0@0", "1@1"]);
    await end(1);
    expect(running()).toEqual(["0@0", "2@1"]);
    await end(0, 3);
    expect(running()).toEqual(["2@1", "3@0"]);
    await end(2);
    await end(3);
    await end(4);
    expect(statuses.map(({ phase }) => phase)).toEqual(["running", "ended"]);
  });

  it("does not give a slot on while a daemon of its task runs", async () => {
    const { machine, running, end } = batch();
    await machine.pass(50);
    const [first] = machine.running.values();
    if (first === undefined) throw new Error("no task runs");
    machine.onSignal = () => undefined;
    const daemon = { ...first, pid: 99_999, ppid: 1, pgid: 99_999, sid: 99_999 };
    machine.running.set(daemon.pid, daemon);
    await end(0);
    await machine.pass(5_000);
    expect(running().filter((text) => !text.startsWith("0"))).toEqual(["1@1"]);
    machine.running.delete(daemon.pid);
    await machine.pass(100);
    expect(running()).toEqual(["1@1", "2@0"]);
  });

  it("stops the tasks that an order names, running or not, and runs the others", async () => {
    const { machine, launch, running, turns } = batch();
    await machine.pass(50);
    noteStops(launch, [1, 2], { reason: "not wanted", atMs: 7 });
    await machine.pass(2_000);
    expect(running()).toEqual(["0@0", "3@1"]);
    expect(turns().get(1)).toMatchObject({ isOver: true, startedAtMs: expect.any(Number) });
    expect(turns().get(2)).toEqual({ isOver: true, stop: { reason: "not wanted", atMs: 7 } });
  });

  it("starts nothing while its journal cannot be written", async () => {
    const { machine, running, end } = batch();
    await machine.pass(50);
    machine.faultOf = ({ kind }) => (kind === "append" ? "ENOSPC" : undefined);
    await end(0);
    await machine.pass(3_000);
    expect(running()).toEqual(["1@1"]);
    machine.faultOf = () => undefined;
    await machine.pass(600);
    expect(running()).toEqual(["1@1", "2@0"]);
  });
});
