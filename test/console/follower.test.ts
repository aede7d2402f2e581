/** @file When the follower says that its ledger is the fleet's own of now, over a history that comes in pieces. */

import type { Client } from "@temporalio/client";
import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import { readFileSync } from "node:fs";
import path from "node:path";
import { expect, it } from "vitest";
import { followFleet } from "../../console/follow/follower.ts";
import type { HistoryEvent } from "../../console/follow/workflow-task.ts";
import { createConverters } from "../../workers/codec/converters.ts";

const RECORDED = path.join(import.meta.dirname, "../histories/fleet.estimating.json");
const codecs = createConverters().worker.payloadCodecs ?? [];
const events = historyFromJSON(JSON.parse(readFileSync(RECORDED, "utf8"))).events ?? [];
/** Of a workflow task that has ended: what is before can be played. */
const cut = events.findIndex(
  ({ workflowTaskScheduledEventAttributes }, at) =>
    at > events.length / 2 && Boolean(workflowTaskScheduledEventAttributes),
);

/** What is told while the pages come, each after the one before was taken, and nothing more after them. */
async function told(
  pages: readonly (readonly HistoryEvent[] | Error)[],
  historyLength = Number(events.at(-1)?.eventId),
): Promise<readonly string[]> {
  const said: string[] = [];
  const ending = new AbortController();
  let next = 0;
  const client = {
    options: { namespace: "default" },
    withAbortSignal: (_signal: AbortSignal, call: () => unknown) => call(),
    withDeadline: (_at: number, call: () => unknown) => call(),
    workflowService: {
      describeWorkflowExecution: () =>
        Promise.resolve({ workflowExecutionInfo: { execution: { runId: "run" }, historyLength } }),
      async getWorkflowExecutionHistory() {
        await Promise.resolve();
        const page = pages[next++];
        if (page instanceof Error) throw page;
        if (page === undefined) ending.abort();
        else said.push(`page ${String(next)}`);
        return { history: { events: page ?? [] }, nextPageToken: new Uint8Array([1]) };
      },
    },
  };
  await followFleet({
    ...{ client: client as unknown as Client, fleet: "f", codecs, signal: ending.signal },
    listener: {
      began: () => undefined,
      folded: () => undefined,
      reached: (trouble) => void said.push(trouble ?? "no trouble"),
      current: (isCurrent) => void said.push(isCurrent ? "current" : "not current"),
      diverged: () => void said.push("diverged"),
    },
  });
  return said;
}

it("is current once all that there was has been read, and while more comes", async () => {
  const halves = [events.slice(0, cut), events.slice(cut)];
  expect(await told(halves)).toEqual(["page 1", "page 2", "current"]);
  expect(await told(halves, cut)).toEqual(["page 1", "current", "page 2"]);
});

it("is not while the server does not answer, until all has been read again", async () => {
  const halves = [events.slice(0, cut), events.slice(cut)];
  expect(await told([...halves, new Error("away"), ...halves])).toEqual([
    ...["page 1", "page 2", "current", "not current", "away"],
    ...["page 4", "no trouble", "page 5", "current"],
  ]);
});

it("never is in a run whose history is none of this machine", async () => {
  const holed = [events.slice(0, 10), events.slice(cut)];
  expect(await told(holed)).toEqual(["page 1", "page 2", "diverged"]);
});

/** The runs that began, of a fleet whose newest run is another after the first was terminated; of runs that are not among them the server knows nothing. */
async function begun(
  after: Readonly<Record<string, { readonly firstRunId: string; readonly next?: string }>>,
  newest: string,
  {
    isBroken = false,
    unread = "",
  }: {
    readonly isBroken?: boolean;
    /** A run that nobody can take. */ readonly unread?: string;
  } = {},
): Promise<readonly string[]> {
  let isToBreak = isBroken;
  const runs: typeof after = { first: { firstRunId: "first" }, ...after };
  const began: string[] = [];
  const read = new Map<string, number>();
  const ending = new AbortController();
  let isOver = false;
  const gone = (): never => {
    throw Object.assign(new Error("not found"), { code: 5 });
  };
  const client = {
    options: { namespace: "default" },
    withAbortSignal: (_signal: AbortSignal, call: () => unknown) => call(),
    withDeadline: (_at: number, call: () => unknown) => call(),
    workflowService: {
      async describeWorkflowExecution({ execution }: Asked) {
        await Promise.resolve();
        const runId = execution.runId || (isOver ? newest : "first");
        if (runs[runId] === undefined) gone();
        return { workflowExecutionInfo: { execution: { runId }, historyLength: cut } };
      },
      async getWorkflowExecutionHistory({ execution: { runId }, nextPageToken }: Asked) {
        await Promise.resolve();
        const { firstRunId, next } = runs[runId] ?? gone();
        isOver = true;
        const all = eventsOf(firstRunId, next);
        if (!isToBreak) return { history: { events: all }, nextPageToken: new Uint8Array() };
        if (nextPageToken === undefined)
          return { history: { events: all.slice(0, 20) }, nextPageToken: new Uint8Array([1]) };
        isToBreak = false;
        throw Object.assign(new Error("away"), { code: 14 });
      },
    },
  };
  await followFleet({
    ...{ client: client as unknown as Client, fleet: "f", codecs, signal: ending.signal },
    listener: {
      began({ runId }) {
        if (isBroken) began.push(...[...read].map(([one, event]) => `${one} to ${String(event)}`));
        began.push(runId);
        if (runId === newest) ending.abort();
      },
      folded(runId, { task }) {
        if (runId === unread) throw new TypeError("shape");
        read.set(runId, task.lastEvent);
      },
      reached: () => undefined,
      current: () => undefined,
      diverged: (runId, why) => void began.push(`${runId} diverged: ${why}`),
    },
  });
  return began;
}

interface Asked {
  readonly execution: { readonly runId: string };
  readonly nextPageToken?: Uint8Array;
}

/** A run that was terminated, or has continued as another. */
function eventsOf(firstRunId: string, next: string | undefined): readonly HistoryEvent[] {
  const [first, ...rest] = events.slice(0, cut);
  const started = first?.workflowExecutionStartedEventAttributes;
  const last = { eventId: events[cut]?.eventId, eventTime: events[cut]?.eventTime };
  return [
    {
      ...first,
      workflowExecutionStartedEventAttributes: { ...started, firstExecutionRunId: firstRunId },
    },
    ...rest,
    next === undefined
      ? { ...last, workflowExecutionTerminatedEventAttributes: {} }
      : { ...last, workflowExecutionContinuedAsNewEventAttributes: { newExecutionRunId: next } },
  ] as readonly HistoryEvent[];
}

it("goes on with the first run of a fleet that began again, also where that has continued as another before anybody looked", async () => {
  const again = {
    second: { firstRunId: "second", next: "third" },
    third: { firstRunId: "second" },
  };
  expect(await begun(again, "third")).toEqual(["first", "second", "third"]);
});

it("goes on with the newest run where the first of those that began again is kept no more", async () => {
  expect(await begun({ third: { firstRunId: "second" } }, "third")).toEqual(["first", "third"]);
});

it("goes on with the run that a reset made of the one before", async () => {
  expect(await begun({ reset: { firstRunId: "first" } }, "reset")).toEqual(["first", "reset"]);
});

it("reads a run to its end before the next one, also where the server was away while the one became the other", async () => {
  const continued = {
    first: { firstRunId: "first", next: "second" },
    second: { firstRunId: "first" },
  };
  const [one, read, other] = await begun(continued, "second", { isBroken: true });
  expect([one, other]).toEqual(["first", "second"]);
  const [, lastEvent = 0] = /^first to (\d+)$/.exec(read ?? "") ?? [];
  expect(Number(lastEvent)).toBeGreaterThan(cut - 5);
});

it("goes on with the newest run where it cannot take the one before, whatever the server says", async () => {
  const continued = {
    first: { firstRunId: "first", next: "second" },
    second: { firstRunId: "first", next: "third" },
    third: { firstRunId: "first" },
  };
  expect(await begun(continued, "third", { unread: "first" })).toEqual(["first", "third"]);
  expect(await begun(continued, "third", { unread: "second" })).toEqual([
    ...["first", "second", "third"],
  ]);
});
