/**
 * @file Orders to give up a run of which nothing was started: the fleet hears of them once they are durable, so no lost task leaves the job on a lease that is free.
 * And what a held job does with a grant for a release that was lost.
 */

import { expect, test } from "vitest";
import { jobView } from "../../../machines/job/job-view.ts";
import { HOST, noteOf, playJob, type PlayedJob } from "./builders.ts";

const SUSPEND = { kind: "suspend", order: { by: "ada" } } as const;
const REQUEUE = { kind: "requeue", order: { by: "ada" } } as const;
const MOVE = { kind: "move", order: { by: "ada", fleet: "us" } } as const;

/** Its gang waits for the address of a host. */
function searching(): PlayedJob {
  const played = playJob();
  const grant = played.grant(1);
  if (grant.kind === "grant")
    played.feed({ ...grant, offer: { ...(grant.offer as object), agents: [] } });
  return played;
}

test.each([
  ["suspend", SUSPEND, "held"],
  ["requeue", REQUEUE, "pending"],
] as const)(
  "an order to %s in the moment of the grant is told a task later, and starts nothing",
  (_what, order, state) => {
    const played = playJob();
    played.together(played.grant(1), order);
    expect([played.stage(), played.open("tell"), played.open("run")]).toEqual(["ready", [], []]);
    expect(played.wait()).toBe(true);
    played.deliver();
    expect([played.open("run"), played.ends()]).toEqual([[], [1]]);
    expect(jobView(played.job()).state).toBe(state);
  },
);

test("so is an order to move a job whose launch extras are being made", () => {
  const played = playJob({ extras: ["plan"] });
  played.feed(played.grant(1));
  expect(played.stage()).toBe("preparing");
  played.feed(MOVE);
  expect(played.open("cancel-extras")).toHaveLength(1);
  expect([played.stage(), played.open("tell")]).toEqual(["ready", []]);
  played.wait();
  played.deliverOne();
  expect([played.ends(), played.stage()]).toEqual([[1], "holding"]);
});

test("so is one to a gang whose search for a host ends in that task", () => {
  const played = searching();
  const [find] = played.open("find-host");
  if (find === undefined) throw new Error("no host is looked for");
  played.feed(SUSPEND);
  expect(played.open("tell")).toEqual([]);
  played.answer(find, { kind: "found", id: find.id, host: HOST, agent: null });
  expect(played.open("tell")).toHaveLength(1);
  const atOnce = searching();
  const [search] = atOnce.open("find-host");
  if (search === undefined) throw new Error("no host is looked for");
  atOnce.together({ kind: "found", id: search.id, host: HOST, agent: null }, REQUEUE);
  expect([atOnce.stage(), atOnce.open("tell")]).toEqual(["running", []]);
  atOnce.wait();
  expect([atOnce.stage(), atOnce.open("tell")]).toMatchObject(["settling", [{}]]);
});

test("what a local activity answers meanwhile makes it no more durable", () => {
  const played = playJob();
  played.feed(noteOf(1, "QueueFull"));
  played.feed({ kind: "call-in", call: { seq: 1, credit: 7, round: 0 } });
  played.together(played.grant(1), SUSPEND);
  played.pass(20);
  played.deliverOne();
  expect([played.stage(), played.ends()]).toEqual(["ready", []]);
  played.wait();
  expect(played.stage()).toBe("settling");
});

test("a cancellation in the same moment, which is durable, ends the job at once", () => {
  const played = playJob();
  played.together(played.grant(1), SUSPEND, { kind: "cancel" });
  played.deliver();
  expect(played.outcome()).toEqual({ kind: "cancelled" });
});

test("hosts that run it are ordered to stop at once", () => {
  const played = playJob();
  played.feed(played.grant(1));
  played.feed(REQUEUE);
  expect(played.open("stop")).toHaveLength(1);
  expect(played.wait()).toBe(false);
});

test("a run under former rules tells it in the task that takes the order", () => {
  const played = playJob({ rules: 9 });
  played.together(played.grant(1), SUSPEND);
  played.deliver();
  expect([played.ends(), jobView(played.job()).state]).toEqual([[1], "held"]);
});

test("a held job gives back what was granted for a release that was lost with its task", () => {
  const held = playJob({ file: { hold: true } });
  held.feed(held.grant(1));
  expect([held.stage(), held.open("tell")]).toEqual(["holding", []]);
  held.wait();
  held.deliver();
  expect([held.ends(), held.stage(), jobView(held.job()).state]).toEqual([[1], "held", "held"]);
  held.feed({ kind: "release" });
  held.deliver();
  expect(held.requests()).toMatchObject([{ seq: 2 }]);
});

test("a release that comes in the moment of such a grant runs on it", () => {
  const held = playJob({ file: { hold: true } });
  held.together(held.grant(1), { kind: "release" });
  expect(held.open("run").map(({ order }) => order.leaseId)).toEqual(["lease-1"]);
});
