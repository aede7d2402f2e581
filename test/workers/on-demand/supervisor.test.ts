/** @file The supervisor: when it looks, at what, and whom it starts. */

import { expect, it } from "vitest";
import type { TaskKind } from "../../../workers/on-demand/backlog.ts";
import type { ControlRole } from "../../../workers/on-demand/places.ts";
import { supervise } from "../../../workers/on-demand/supervisor.ts";

interface CycleView {
  readonly backlog?: (role: ControlRole, kind: TaskKind) => number;
  readonly served?: readonly ControlRole[];
  /** A started worker is seen at once; without it nobody sees what was started. */
  readonly isLocal?: boolean;
  readonly looks: number;
}

async function play({ backlog = () => 0, served = [], isLocal = true, looks }: CycleView) {
  const ended = new AbortController();
  const starts: { readonly role: ControlRole; readonly atMs: number }[] = [];
  const asked: string[] = [];
  const pauses: number[] = [];
  const running = new Set<ControlRole>(served);
  let nowMs = 0;
  await supervise(
    {
      backlog: (role, kind) => {
        asked.push(`${role} ${kind}`);
        const count = backlog(role, kind);
        return Number.isNaN(count) ? Promise.reject(new Error("away")) : Promise.resolve(count);
      },
      isServed: (role) => running.has(role),
      start: (role) => {
        starts.push({ role, atMs: nowMs });
        if (isLocal) running.add(role);
      },
      nowMs: () => nowMs,
      pause: (lengthMs) => {
        nowMs += lengthMs;
        pauses.push(lengthMs);
        if (pauses.length === looks) ended.abort();
        return Promise.resolve();
      },
      onTrouble: () => undefined,
    },
    { lookEveryMs: 1_000, coolOffMs: 10_000 },
    ended.signal,
  );
  return { starts, asked, pauses };
}

it("a quiet fleet is asked once a second, each queue in turn, activities now and then", async () => {
  const { starts, asked, pauses } = await play({ looks: 20 });
  expect(starts).toEqual([]);
  expect(asked).toHaveLength(20);
  expect(asked.slice(0, 2)).toEqual(["fleet workflow", "jobs workflow"]);
  expect(asked.filter((each) => each === "solver activity")).toHaveLength(4);
  expect(asked.slice(17)).toEqual(["fleet activity", "jobs activity", "solver activity"]);
  expect(new Set(pauses)).toEqual(new Set([1_000]));
});

it("a waiting job brings both workers at once", async () => {
  const { starts } = await play({ backlog: (role) => (role === "jobs" ? 1 : 0), looks: 4 });
  expect(starts).toEqual([
    { role: "fleet", atMs: 1_000 },
    { role: "jobs", atMs: 1_000 },
  ]);
});

it("a waiting plan brings a solver and nobody else", async () => {
  const { starts } = await play({ backlog: (role) => (role === "solver" ? 1 : 0), looks: 6 });
  expect(starts).toEqual([{ role: "solver", atMs: 4_000 }]);
});

it("a role that is served is neither asked about nor started", async () => {
  const { starts, asked } = await play({
    backlog: () => 1,
    served: ["fleet", "jobs", "solver"],
    looks: 6,
  });
  expect(starts).toEqual([]);
  expect(asked).toEqual([]);
});

it("what is started elsewhere and not seen is given time before it is started again", async () => {
  const { starts } = await play({ backlog: () => 1, isLocal: false, looks: 14 });
  expect(starts.filter(({ role }) => role === "fleet").map(({ atMs }) => atMs)).toEqual([
    0, 10_000,
  ]);
});

it("a server that is away is asked less often and starts nothing", async () => {
  const { starts, pauses } = await play({ backlog: () => NaN, looks: 3 });
  expect(starts).toEqual([]);
  expect(pauses).toEqual([5_000, 5_000, 5_000]);
});
