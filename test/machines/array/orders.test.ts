/** @file Orders of people to a job array: other settings, suspend, resume and requeue. */

import { describe, expect, it } from "vitest";
import { readArrayAmendment } from "../../../machines/array/array-amended.ts";
import { requeueArrayProblem } from "../../../machines/array/array-paused.ts";
import { FORMER_LOBBY_RULES } from "../../../protocol/control-contract.ts";
import { grantOf, grants, playArray, START_MS, type PlayedArray } from "./builders.ts";

const order = { by: "ada" };
const amend = (played: PlayedArray, changes: object): void => {
  const basis = played.array().amended.count;
  played.feed({ kind: "amend", order: { by: "ada", changes, basis } });
};
const requests = (played: PlayedArray) =>
  played.entries().flatMap((entry) => (entry.kind === "request" ? [entry.request] : []));

describe("a change of an array", () => {
  it("that waits is in its next request, with its age", () => {
    const played = playArray();
    amend(played, { priority: 4 });
    expect(requests(played)).toMatchObject([
      { seq: 2, priority: 4, slots: 10, submittedAtMs: START_MS },
    ]);
    expect(played.view().amended?.count).toBe(1);
  });

  it("of the tenant leaves the lobby of the former one, and gives a late grant of the former request back", () => {
    const played = playArray({ count: 2 });
    const reason = { code: "QueueFull", message: "", numbers: {}, holders: [], wakeOn: [] };
    played.feed({ kind: "pending", note: { seq: 1, reason } });
    amend(played, { tenant: "vision" });
    expect(played.open("tell")).toMatchObject([
      { entry: { request: { seq: 2, tenant: "vision" } }, exit: { tenant: "default", seq: 1 } },
    ]);
    played.deliver();
    played.feed(grants(grantOf(1, { slots: 2 })));
    expect(played.gang("run")).toEqual([]);
    expect(played.entries().at(-1)).toMatchObject({ kind: "end", seq: 1 });
  });

  it.each([
    [FORMER_LOBBY_RULES, "default"],
    [FORMER_LOBBY_RULES - 1, "vision"],
  ])(
    "of the tenant has it leave the lobby that calls it under the former request (rules %i: %s)",
    (rules, tenant) => {
      // It has not heard that it is outside.
      const played = playArray({ count: 2, entry: { rules } });
      amend(played, { tenant: "vision" });
      played.deliver();
      played.feed({ kind: "call-in", call: { credit: 7, seq: 1, round: 0 } });
      expect(played.open("leave-lobby")).toMatchObject([{ exit: { tenant, seq: 1 } }]);
    },
  );

  it.each([
    ["there and back", ["vision", "default"], true],
    ["to two others in one moment", ["vision", "speech"], false],
    ["to two others, one after the other", ["vision", "speech"], true],
  ])(
    "of the tenant, %s, has it leave the lobby of the tenant of that request",
    (_, tenants, isHeard) => {
      const played = playArray({ count: 2, entry: { rules: FORMER_LOBBY_RULES } });
      for (const [basis, tenant] of tenants.entries()) {
        played.feed({ kind: "amend", order: { by: "ada", changes: { tenant }, basis } });
        if (isHeard) played.deliver();
      }
      played.deliver();
      played.feed({ kind: "call-in", call: { credit: 7, seq: 1, round: 0 } });
      expect(played.open("leave-lobby")).toMatchObject([{ exit: { tenant: "default", seq: 1 } }]);
    },
  );

  it("of the tenant, with a call of the former one in the same moment, has it leave that one's lobby and use no credit of it", () => {
    const played = playArray({ count: 2, entry: { rules: FORMER_LOBBY_RULES } });
    played.feed(
      { kind: "amend", order: { by: "ada", changes: { tenant: "vision" }, basis: 0 } },
      { kind: "call-in", call: { credit: 7, seq: 1, round: 0 } },
    );
    expect(played.open("leave-lobby")).toMatchObject([{ exit: { tenant: "default", seq: 1 } }]);
    played.deliver();
    expect(played.entries().at(-1)).toMatchObject({
      kind: "request",
      request: { tenant: "vision" },
    });
    expect(played.entries().at(-1)).not.toHaveProperty("request.credit");
  });

  it("that runs leaves its leases as they were granted", () => {
    const played = playArray({ count: 8, parallel: 2 });
    played.feed(grants(grantOf(1, { slots: 2 })));
    amend(played, { timeLimitMs: 5_000 });
    expect(played.view().spec?.timeLimitMs).toBe(5_000);
    played.ran();
    const limits = played.gang("run").map(({ command }) => command.order.timeLimitMs);
    expect(limits).toEqual(limits.map(() => undefined));
    const asked = { by: "ada", changes: { tenant: "vision" }, basis: 1 };
    expect(readArrayAmendment(played.array(), asked, START_MS)).toMatchObject({
      code: "NOT_ALLOWED",
    });
  });
});

describe("suspend", () => {
  it("stops what runs, gives all leases back and hands out nothing until the release", () => {
    const played = playArray({ count: 4, parallel: 2 });
    played.feed(grants(grantOf(1, { slots: 2 })));
    played.feed({ kind: "suspend", order });
    expect(played.gang("stop")).toHaveLength(1);
    played.stopped();
    played.ran(() => ({ end: "stopped" }));
    played.deliver();
    expect(played.view()).toMatchObject({
      state: "held",
      pause: { kind: "suspend", by: "ada" },
      array: { counts: { waiting: 4, running: 0, failed: 0 }, leases: [] },
    });
    played.feed({ kind: "release" });
    expect(requests(played).at(-1)).toMatchObject({ slots: 2, submittedAtMs: START_MS });
    expect(played.view().pause).toBeUndefined();
  });
});

describe("requeue", () => {
  it("stops what runs, and the tasks are asked for again", () => {
    const played = playArray({ count: 4, parallel: 2 });
    expect(requeueArrayProblem(played.array())?.code).toBe("NOT_ALLOWED");
    played.feed(grants(grantOf(1, { slots: 2 })));
    played.feed({ kind: "requeue", order });
    played.stopped();
    played.ran(() => ({ end: "stopped" }));
    played.deliver();
    expect(requests(played).at(-1)).toMatchObject({ slots: 2 });
    expect(played.view().array?.counts).toMatchObject({ waiting: 4, failed: 0 });
  });
});
