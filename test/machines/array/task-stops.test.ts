/** @file Orders to stop tasks that their hosts do not carry out: given again, to where the agent is, and not for ever. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_STOP_ORDERS } from "../../../machines/array/task-stops.ts";
import { REPEATED_STOP_RULES } from "../../../protocol/control-contract.ts";
import { grantOf, grants, playArray, type Of, type Play, type PlayedArray } from "./builders.ts";

const failed = (played: PlayedArray, command: Of<"stop-tasks">): void => {
  const { leaseId, host, batchSeq } = command.order;
  const stop = { leaseId, host, batchSeq, attempt: command.attempt };
  played.answer(command, { kind: "stop-failed", stop });
};

/** An array of which a batch runs, and tasks 0 and 2 of it are cancelled. */
function cancelling(play: Play = {}, grant = grantOf(1)): PlayedArray {
  const played = playArray({ count: 60, parallel: 4, ...play });
  played.feed(grants(grant));
  played.feed({ kind: "cancel-tasks", order: { tasks: "0,2" } });
  return played;
}

const onlyStop = (played: PlayedArray): Of<"stop-tasks"> => {
  const [stop, ...more] = played.open("stop-tasks");
  if (stop === undefined || more.length > 0) throw new Error(`${more.length} orders too many`);
  return stop;
};

describe("an order to stop tasks that fails", () => {
  it("is given again later each time, at most twenty times", () => {
    const played = cancelling();
    const pauses: number[] = [];
    for (;;) {
      const [stop] = played.open("stop-tasks");
      if (stop === undefined) break;
      expect(stop.order.tasks).toEqual([0, 2]);
      failed(played, stop);
      expect(played.open("stop-tasks")).toEqual([]);
      const beforeMs = played.now();
      if (played.wait()) pauses.push((played.now() - beforeMs) / 1_000);
    }
    const doubling = [2, 4, 8, 16, 32, 64, 128, 256];
    expect(pauses).toEqual([...doubling, ...Array.from({ length: 11 }, () => 300)]);
    expect(pauses).toHaveLength(MAX_STOP_ORDERS - 1);
    played.feed({ kind: "cancel-tasks", order: { tasks: "2" } });
    expect(onlyStop(played)).toMatchObject({ attempt: 1, order: { tasks: [2] } });
  });

  it("goes to where the agent is then", () => {
    const played = cancelling();
    failed(played, onlyStop(played));
    const [run] = played.gang("run");
    if (run === undefined) throw new Error("no run");
    const cause = { code: "HOST_LOST", message: "silent", atMs: played.now() } as const;
    played.notRun({ kind: "failed", means: "silent", cause }, run);
    while (played.gang("find-host").length === 0) played.wait();
    const [find] = played.gang("find-host");
    if (find === undefined) throw new Error("nobody is looked for");
    const { id, host } = find.command;
    const agent = { epoch: "2", runQueue: "run.2", orderQueue: "orders.2", address: "::1" };
    played.answer(find, {
      ...{ kind: "gang", lease: find.lease },
      answer: { kind: "found", id, host, agent },
    });
    while (played.open("stop-tasks").every(({ agent: at }) => at.orderQueue !== "orders.2")) {
      const [stop] = played.open("stop-tasks");
      if (stop === undefined) played.wait();
      else failed(played, stop);
    }
    expect(onlyStop(played).agent.orderQueue).toBe("orders.2");
  });

  it("is not given again once the batch is over, nor for another batch of its lease", () => {
    const played = cancelling();
    const stop = onlyStop(played);
    played.ran((task) => (task === 0 || task === 2 ? { end: "stopped" } : {}));
    failed(played, stop);
    expect(played.array().stopsAgain).toEqual([]);
    const late = cancelling();
    failed(late, onlyStop(late));
    late.ran((task) => (task === 0 || task === 2 ? { end: "stopped" } : {}));
    late.wait(10_000);
    expect(late.open("stop-tasks")).toEqual([]);
    expect(late.view().array?.counts.cancelled).toBe(2);
  });

  it("is left to the end of the whole array where that is being cancelled", () => {
    const played = cancelling();
    failed(played, onlyStop(played));
    played.feed({ kind: "cancel" });
    played.wait(10_000);
    expect(played.open("stop-tasks")).toEqual([]);
    expect(played.gang("stop")).toHaveLength(1);
  });

  it("is dropped, as ever, by arrays of former rules", () => {
    const played = cancelling({ entry: { rules: REPEATED_STOP_RULES - 1 } });
    failed(played, onlyStop(played));
    expect(played.array().stopsAgain).toEqual([]);
  });

  it("changes nothing that anybody sees meanwhile", () => {
    const played = cancelling();
    const before = played.view();
    const given = played.commands.length;
    failed(played, onlyStop(played));
    expect(played.view()).toEqual(before);
    expect(played.commands).toHaveLength(given);
  });

  it("is waited for on each host of its own", () => {
    const played = cancelling(
      { file: { gang: 12 } },
      grantOf(1, { slots: 1, hosts: ["h1", "h2"] }),
    );
    const [one, other] = played.open("stop-tasks");
    if (one === undefined || other === undefined) throw new Error("two hosts, two orders");
    expect([one.order.host, other.order.host]).toEqual(["alpha/h1", "alpha/h2"]);
    failed(played, one);
    failed(played, other);
    expect(played.array().stopsAgain).toHaveLength(2);
    played.wait();
    expect(played.open("stop-tasks").map(({ order }) => order.host)).toEqual([
      "alpha/h1",
      "alpha/h2",
    ]);
  });
});

type Happening =
  | { readonly does: "fail" | "wait" | "run" }
  | { readonly does: "cancel" | "retry"; readonly task: number };

const happening: fc.Arbitrary<Happening> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ does: fc.constantFrom("fail", "wait") }) },
  { weight: 1, arbitrary: fc.record({ does: fc.constant("run") }) },
  {
    weight: 2,
    arbitrary: fc.record({ does: fc.constantFrom("cancel", "retry"), task: fc.nat(11) }),
  },
);

it("whatever fails, only cancelled tasks that run are stopped, and each of them is under order or to be ordered again", () => {
  fc.assert(
    fc.property(fc.array(happening, { maxLength: 40 }), (happenings) => {
      const played = playArray({ count: 12, parallel: 8 });
      played.feed(grants(grantOf(1), grantOf(2)));
      let failures = 0;
      for (const each of happenings) {
        const [stop] = played.open("stop-tasks");
        if (each.does === "fail" && stop !== undefined) {
          failed(played, stop);
          failures += 1;
        }
        if (each.does === "wait") played.wait();
        if (each.does === "run" && played.gang("run").length > 0)
          played.ran((task) => (played.array().unwanted.has(task) ? { end: "stopped" } : {}));
        if (each.does === "cancel" || each.does === "retry")
          played.feed({ kind: `${each.does}-tasks`, order: { tasks: String(each.task) } });
        const { unwanted, leases, stopsAgain } = played.array();
        for (const { grant, batchSeq, work } of leases.values()) {
          if (work.kind !== "running") continue;
          const isOf = (of: { readonly leaseId: string; readonly batchSeq: number }): boolean =>
            of.leaseId === grant.lease.id && of.batchSeq === batchSeq;
          const open = played.open("stop-tasks").filter(({ order }) => isOf(order));
          const toCome = stopsAgain.some(isOf);
          for (const task of work.tasks) {
            const isOrdered = open.some(({ order }) => order.tasks.includes(task));
            if (isOrdered) expect(unwanted.has(task)).toBe(true);
            if (unwanted.has(task) && failures < MAX_STOP_ORDERS)
              expect({ task, isHandled: isOrdered || toCome }).toEqual({ task, isHandled: true });
          }
        }
      }
    }),
  );
});
