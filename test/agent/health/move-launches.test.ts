/** @file Launches on a broken GPU: whom they hear from that they must end, what they write before, and how they have ended. */
import { describe, expect, it } from "vitest";
import { moveLaunches } from "../../../agent/health/move-launches.ts";
import { fakeAgent, ranksOn, type FakeAgent } from "../fake-host.ts";
import { stopOf } from "../fixture.ts";
import { savingRun } from "../saving-run.ts";

const GRACE_MS = 60_000;
const FAULT = "GPU fault since now: Xid 79";

const running = (over: { readonly hearsOfFaults?: true } = { hearsOfFaults: true }) =>
  savingRun({ graceMs: GRACE_MS, writesAfterMs: 3_000, ...over });

const move = (agent: FakeAgent): Promise<void> =>
  moveLaunches([agent.host], { gpus: "all", reason: FAULT, onNote: () => undefined });
const LOST = {
  end: "failed",
  cause: { code: "HOST_LOST", message: expect.stringContaining(FAULT) as string },
};

describe("a launch on a broken GPU", () => {
  it("runs on after its job has heard of it, and writes a checkpoint by the job's order", async () => {
    const { machine, agent, order, report, signals, made } = await running();
    const nowMs = machine.wallMs;
    const moved = move(agent);
    await expect(machine.until(report, 1_000)).rejects.toMatchObject({
      type: "HOST_LOST",
      message: expect.stringContaining(FAULT) as string,
      details: [{ faultAtMs: nowMs }],
    });
    await machine.pass(5_000);
    expect([ranksOn(machine).length, signals]).toEqual([1, []]);
    const stopped = await machine.until(agent.orders.stop(stopOf(order, true)));
    expect(made()).toHaveLength(1);
    expect(stopped).toMatchObject({
      hadProcesses: true,
      checkpoint: made()[0],
      report: { ...LOST, cause: { ...LOST.cause, atMs: nowMs } },
    });
    await machine.until(moved);
    expect(signals.slice(0, 2)).toEqual(["SIGUSR1", "SIGTERM"]);
  });

  it("is stopped with a checkpoint by its agent where no order comes within half a minute", async () => {
    const { machine, agent, order, report, signals, made } = await running();
    const moved = move(agent);
    await expect(machine.until(report)).rejects.toMatchObject({ type: "HOST_LOST" });
    await machine.pass(29_000);
    expect(signals).toEqual([]);
    await machine.until(moved);
    expect(made()).toHaveLength(1);
    expect(await machine.until(agent.runs.run(order))).toMatchObject(LOST);
  });

  it("is told of again by the next agent, after it has taken the launch over", async () => {
    const { machine, agent, order, report } = await running();
    void move(agent);
    await expect(machine.until(report)).rejects.toMatchObject({ type: "HOST_LOST" });
    const next = fakeAgent(machine);
    const again = next.runs.run(order);
    await machine.pass(1_000);
    void move(next);
    await expect(machine.until(again)).rejects.toMatchObject({ type: "HOST_LOST" });
    const stopped = await machine.until(next.orders.stop(stopOf(order, true)));
    expect(stopped.report).toMatchObject(LOST);
  });

  it("has completed where its ranks end with 0 before they are told to end", async () => {
    const { machine, agent, order, report } = await running();
    const moved = move(agent);
    await expect(machine.until(report)).rejects.toMatchObject({ type: "HOST_LOST" });
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    const stopped = await machine.until(agent.orders.stop(stopOf(order, true)));
    expect(stopped.report).toMatchObject({ end: "completed" });
    await machine.until(moved);
  });

  it("is stopped by its agent at once where its job does not hear of such faults", async () => {
    const { machine, agent, report, made } = await running({});
    const moved = move(agent);
    expect(await machine.until(report, 10_000)).toMatchObject(LOST);
    expect(made()).toHaveLength(1);
    await machine.until(moved);
  });
});
