/** @file How a launch has ended under which a GPU broke: by the host where its own processes fail of it, and as ever where it is not to blame. */
import { afterEach, describe, expect, it } from "vitest";
import {
  FAULT_AFTER_MS,
  FAULT_BEFORE_MS,
  launchFault,
  type LaunchFault,
} from "../../../agent/health/launch-fault.ts";
import { verdict } from "../../../agent/runs/run-report.ts";
import type { RunOrder } from "../../../protocol/agent-contract.ts";
import { batchOf } from "../batch-fixture.ts";
import { orderOf, removeFolders, stopOf, testAgent } from "../fixture.ts";

afterEach(removeFolders);

const TEXT = "GPU 0:28:00: Xid 79 (the GPU has fallen off the bus)";

/** A run of the order, with this fault under it; `asked`: for which GPUs. */
async function ended(order: RunOrder, atMs: (nowMs: number) => number) {
  const asked: (readonly number[])[] = [];
  const agent = testAgent({
    findFault: (gpus): Promise<LaunchFault> => {
      asked.push(gpus);
      return Promise.resolve({ text: TEXT, atMs: atMs(Date.now()) });
    },
  });
  return { asked, report: await agent.runs.run(order) };
}

const now = (nowMs: number): number => nowMs;

describe("a launch under which a GPU breaks", () => {
  it("is lost with its host where a rank fails, and its last lines stay", async () => {
    const { asked, report } = await ended(orderOf("echo no device; exit 3"), now);
    expect(report).toMatchObject({
      end: "failed",
      cause: {
        ...{ code: "HOST_LOST", rank: 0, exitCode: 3, lastLines: "no device\n" },
        message: expect.stringMatching(/ended with exit code 3, after a GPU of it broke: GPU 0:28/),
      },
    });
    expect(asked).toEqual([[0]]);
  });

  it("has failed by itself where the GPU broke long before it, or long after", async () => {
    for (const offMs of [-FAULT_BEFORE_MS - 60_000, FAULT_AFTER_MS + 60_000]) {
      const { report } = await ended(orderOf("exit 3"), (nowMs) => nowMs + offMs);
      expect(report.cause?.code).toBe("PROCESS_EXITED");
    }
  });

  it("has failed by itself where its program is not there, and completed where it did", async () => {
    const none = orderOf("", { run: { command: ["/no/such/program"] } });
    expect((await ended(none, now)).report.cause?.code).toBe("COMMAND_NOT_FOUND");
    const { asked, report } = await ended(orderOf("true"), now);
    expect([asked, report.end]).toEqual([[], "completed"]);
  });

  it("is lost with its host where it is stopped, as for another host of its gang that failed first", async () => {
    const agent = testAgent({
      findFault: () => Promise.resolve({ text: TEXT, atMs: Date.now() - 1 }),
    });
    const order = orderOf("sleep 3600");
    const report = agent.runs.run(order);
    await expect.poll(() => agent.task.beats.some((beat) => beat?.phase === "running")).toBe(true);
    await agent.orders.stop(stopOf(order));
    expect(await report).toMatchObject({ end: "failed", cause: { code: "HOST_LOST" } });
  });

  it("leaves its tasks of an array to run again", async () => {
    const { report } = await ended(batchOf("exit 3", { tasks: [4] }), now);
    expect(report).toMatchObject({ tasks: [{ task: 4, end: "stopped" }] });
  });
});

describe("the fault under a launch", () => {
  const hostGpus = ["0:18:00", "0:28:00", undefined].map((busId, index) => ({
    ...{ index, uuid: `GPU-${index}`, nodes: [], devices: [] },
    ...(busId !== undefined && { busId }),
  }));
  const clock = { nowMs: () => 1_000_000, sinceBootMs: () => 300_000 };
  const fault = { busId: "0:28:00", text: TEXT, sinceBootMs: 250_000 };
  const find = (own: readonly number[], startedAtMs = 940_000) => {
    const since: number[] = [];
    const faultsSince = (sinceBootMs: number) => {
      since.push(sinceBootMs);
      return [fault];
    };
    return { found: launchFault({ hostGpus, own }, startedAtMs, { clock, faultsSince }), since };
  };

  it("is of one of its own GPUs, by the wall clock, from a minute before its start on", () => {
    const { found, since } = find([0, 1]);
    expect(found).toEqual({ text: TEXT, atMs: 950_000 });
    expect(since).toEqual([240_000 - FAULT_BEFORE_MS]);
  });

  it("is of no other GPU, and of none that the machine does not name", () => {
    expect(find([0]).found).toBeUndefined();
    expect(find([2])).toEqual({ found: undefined, since: [] });
  });
});

it("a launch that is told that its GPU broke ends at the time of the fault, before ranks of other hosts that failed of it", () => {
  const status = { startedAtMs: 50_000, endedAtMs: 103_000, ranks: [] };
  const shim = { pid: 1, startTicks: 1 } as never;
  const facts = {
    order: orderOf("true"),
    phase: { kind: "lost", shim, status: undefined },
    stop: { reason: "GPU 0 is broken", atMs: 102_600, isHostFault: true },
    ...{ bootId: "", checkpoint: undefined, nowMs: 103_000, lastLines: () => "" },
  } as const;
  const causeAt = (atMs: number) =>
    verdict({ ...facts, fault: { text: TEXT, atMs } }, status as never).cause;
  const cause = { code: "HOST_LOST", message: "GPU 0 is broken" };
  expect(causeAt(100_000)).toEqual({ ...cause, atMs: 100_000 });
  expect(causeAt(-100_000)).toEqual({ ...cause, atMs: 102_600 });
});
