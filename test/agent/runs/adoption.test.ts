import { describe, expect, it } from "vitest";
import { startedRuns } from "../../../agent/runs/agent-host.ts";
import { fakeAgent, ranksOn } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { orderOf } from "../fixture.ts";

it("a run that ends while its forgotten attempt asks whether its job lives is told as vacated", async () => {
  const machine = new FakeMachine();
  const { clock } = machine.system();
  const agent = fakeAgent(machine, {
    view: async () => {
      await clock.pause(3_000);
      return { isClosed: true, beats: [] };
    },
  });
  const order = orderOf("train");
  const forgotten = agent.runs.run(order);
  await machine.pass(1_000);
  agent.cancel("forgotten");
  await machine.pass(1_000);
  for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
  await expect(machine.until(forgotten)).rejects.toMatchObject({ name: "CompleteAsyncError" });
  await machine.pass(5_000);
  expect(agent.vacated).toEqual([order.leaseId]);
});

async function orphaned() {
  const machine = new FakeMachine();
  const old = fakeAgent(machine);
  const order = orderOf("train");
  const abandoned = old.runs.run(order);
  await machine.pass(1_000);
  const [rank] = ranksOn(machine);
  old.cancel("shutdown");
  await expect(machine.until(abandoned)).rejects.toMatchObject({ type: "HOST_LOST" });
  return { machine, order, rank };
}

describe("a restarted agent", () => {
  it("adopts what runs: it starts nothing, and reports the end that comes later", async () => {
    const { machine, order, rank } = await orphaned();
    const agent = fakeAgent(machine);
    expect(startedRuns(agent.host)).toHaveLength(1);
    const report = agent.runs.run(order);
    await machine.pass(5_000);
    expect(ranksOn(machine)).toEqual([rank]);
    rank?.end({ exitCode: 3 });
    expect(await machine.until(report)).toMatchObject({
      end: "failed",
      cause: { code: "PROCESS_EXITED", exitCode: 3 },
    });
  });

  it("reports an end that came while no agent was there", async () => {
    const { machine, order, rank } = await orphaned();
    rank?.end({ exitCode: 0 });
    await machine.pass(5_000);
    const report = await machine.until(fakeAgent(machine).runs.run(order));
    expect(report).toMatchObject({ end: "completed", hasStarted: true });
  });

  it("on a machine that was restarted names that, whichever processes have the old pids now", async () => {
    const { machine, order } = await orphaned();
    const before = [...machine.running.values()];
    expect(before).toHaveLength(2);
    machine.reboot();
    const signalled: number[] = [];
    machine.onSignal = ({ pid }) => signalled.push(pid);
    // Later processes under the pids of the shim and the rank are not of the launch, even with the same start time.
    for (const old of before)
      machine.running.set(old.pid, { ...old, order: { ...old.order, env: {} } });
    const agent = fakeAgent(machine);
    expect(await machine.until(agent.runs.run(order))).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", message: expect.stringContaining("was restarted") },
    });
    expect(signalled).toEqual([]);
    expect(agent.host.open.size).toBe(0);
  });
});
