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
        Promise.resolve({ workflowExecutionInfo: { historyLength } }),
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
