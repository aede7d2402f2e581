/** @file A job and its fleets by its machine: moves between cells, stale grants, answers to a fleet that has lost its ledger, resets. */
import { describe, expect, test } from "vitest";
import { runId } from "../../../domain/values/ids.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { HOST, NO_FLEET, noteOf, playJob, START_MS, type PlayedJob } from "./builders.ts";

const CELLS = { file: { fleets: ["eu", "us"], patience: "1m" } };

/** Ends the request at the present fleet, waits until that fleet holds nothing of the job, and asks the next. */
function move(played: PlayedJob): void {
  played.deliver();
  const id = played.open("until-forgotten").at(-1)?.id ?? 0;
  played.feed({ kind: "forgotten", id });
  played.deliver();
}

describe("a job with several fleets", () => {
  test("asks the next one only when the first holds nothing of it, under another number", () => {
    const played = playJob(CELLS);
    played.feed(noteOf(1, "PatienceOver"));
    played.deliver();
    expect(played.told).toMatchObject([{ fleet: "eu", entry: { kind: "end", seq: 1 } }]);
    expect(played.stage()).toBe("leaving");
    move(played);
    expect(played.told.at(-1)).toMatchObject({
      fleet: "us",
      entry: { kind: "request", request: { seq: 2, patienceMs: 60_000 } },
    });
    expect(played.commands).toContainEqual({
      kind: "memo",
      move: { from: "eu", to: "us", code: "PatienceOver" },
    });
    expect(jobView(played.job())).toMatchObject({ fleet: "us", cells: { home: "eu", moved: 1 } });
  });

  test("gives a late grant of the first back at every fleet, and runs on nothing of it", () => {
    const played = playJob(CELLS);
    played.feed(noteOf(1, "PatienceOver"));
    move(played);
    played.feed(played.grant(1));
    played.deliver();
    const returned = played.told.slice(-2).map(({ fleet, entry }) => [fleet, entry.kind]);
    expect(returned).toEqual([
      ["eu", "end"],
      ["us", "end"],
    ]);
    expect(played.stage()).toBe("waiting");
    expect(played.job().seq).toBe(2);
  });

  test("leaves a fleet that is not there at once, but only in the first round", () => {
    const played = playJob({ ...CELLS, notified: NO_FLEET });
    played.deliver(NO_FLEET);
    played.feed({ kind: "forgotten", id: played.open("until-forgotten").at(-1)?.id ?? 0 });
    played.deliverOne(NO_FLEET);
    played.deliverOne(NO_FLEET);
    played.feed({ kind: "forgotten", id: played.open("until-forgotten").at(-1)?.id ?? 0 });
    expect(played.now()).toBe(START_MS);
    played.deliverOne(NO_FLEET);
    expect([played.stage(), jobView(played.job()).cells?.round]).toEqual(["no-fleet", 2]);
    played.wait();
    expect(played.now()).toBe(START_MS + 120_000);
  });

  test("that is cancelled while the first has not let go ends at once", () => {
    const played = playJob(CELLS);
    played.feed(noteOf(1, "PatienceOver"));
    played.deliver();
    played.feed({ kind: "cancel" });
    played.deliver();
    expect(played.outcome()).toEqual({ kind: "cancelled" });
    expect(played.told.every(({ fleet }) => fleet === "eu")).toBe(true);
  });

  test("stays where its checkpoints are in the agents' own folders", () => {
    const checkpoint = { signal: "USR1", grace: "5s" };
    const played = playJob({
      file: { ...CELLS.file, run: { command: ["true"], checkpoint } },
    });
    played.feed(played.grant(1));
    played.feed({ kind: "fenced", loss: { lease: "lease-1", hosts: [HOST] } });
    played.deliver();
    played.wait();
    played.deliver();
    expect(played.requests().at(-1)).not.toHaveProperty("patienceMs");
    played.feed(noteOf(2, "PatienceOver"));
    expect(played.stage()).toBe("waiting");
  });
});

describe("a fleet that has lost its ledger", () => {
  test("hears the request of a job that waits", () => {
    const played = playJob();
    played.feed({ kind: "assert" });
    played.deliver();
    expect(played.told.map(({ entry }) => entry)).toMatchObject([
      { kind: "request", request: { seq: 1 } },
    ]);
  });

  test("hears the lease of a job that runs, after the end of its former requests", () => {
    const played = playJob({ file: { retry: { attempts: 2 } } });
    played.feed({ kind: "hold" });
    played.wait();
    played.deliver();
    played.feed({ kind: "release" });
    played.deliver();
    played.feed(played.grant(2));
    const before = played.told.length;
    played.feed({ kind: "assert" });
    played.deliver();
    expect(played.told.slice(before).map(({ entry }) => entry)).toMatchObject([
      { kind: "end", seq: 1, unconfirmedHosts: "all" },
      { kind: "assert", lease: { id: "lease-2" } },
    ]);
  });

  test("hears nothing of a job that is held or leaves it", () => {
    const held = playJob({ file: { hold: true } });
    held.feed({ kind: "assert" });
    expect(held.open("tell")).toEqual([]);
    const leaving = playJob(CELLS);
    leaving.feed(noteOf(1, "PatienceOver"));
    leaving.deliver();
    leaving.feed({ kind: "assert" });
    leaving.deliver();
    expect(leaving.requests()).toEqual([]);
  });

  test("never hears two messages at a time", () => {
    const played = playJob();
    played.feed({ kind: "assert" });
    played.feed({ kind: "cancel" });
    expect(played.open("tell")).toHaveLength(1);
    played.deliverOne();
    expect(played.open("tell")).toHaveLength(1);
  });
});

test("after a reset the lease of the former run is left to the fleet, and the job asks anew once it is gone", () => {
  const played = playJob();
  played.feed(played.grant(1, { runId: runId("run-0") }));
  played.feed({ kind: "assert" });
  const ask = (isThere: boolean): void => {
    const { id, lease } = played.open("has-lease").at(-1) ?? { id: 0, lease: undefined };
    expect(lease).toBe("lease-1");
    played.feed({ kind: "lease", id, isThere });
  };
  ask(true);
  expect(played.stage()).toBe("running");
  played.wait();
  expect(played.now()).toBe(START_MS + 1_000);
  ask(false);
  expect(played.stage()).toBe("settling");
  played.deliver();
  played.wait();
  played.deliver();
  expect(played.requests()).toMatchObject([{ seq: 2 }]);
});
