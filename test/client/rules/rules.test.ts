/** @file Who is alive and which rules it knows, as pollers of task queues show it; what routing and identities say in words. */

import type { Client } from "@temporalio/client";
import proto from "@temporalio/proto";
import { describe, expect, it } from "vitest";
import { livingProcesses, POLL_OPEN_MS } from "../../../client/rules/living-processes.ts";
import { managerOf, readRouting, rulesOfBuildId } from "../../../client/rules/routing.ts";
import { fleetShape, readyLedger } from "../../scheduling/builders.ts";
import { identityText, parseIdentity } from "../../../protocol/worker-identity.ts";

const NOW_MS = 1_000_000;
const { WORKER_STATUS_SHUTTING_DOWN, WORKER_STATUS_RUNNING } =
  proto.temporal.api.enums.v1.WorkerStatus;

interface Poll {
  readonly queue: string;
  readonly identity: string;
  readonly agoMs?: number;
}

interface Listed {
  readonly taskQueue: string;
  readonly workerIdentity: string;
  readonly status: number;
}

/** A server that knows these pollers and these workers. */
const serverWith = (polls: readonly Poll[], workers: readonly Listed[] = []): Client =>
  ({
    options: { namespace: "default" },
    workflowService: {
      describeTaskQueue: ({ taskQueue }: { readonly taskQueue: { readonly name: string } }) =>
        Promise.resolve({
          pollers: polls
            .filter(({ queue }) => queue === taskQueue.name)
            .map(({ identity, agoMs = 0 }) => ({
              identity,
              lastAccessTime: { seconds: (NOW_MS - agoMs) / 1_000 },
            })),
        }),
      listWorkers: () => Promise.resolve({ workers }),
    },
  }) as unknown as Client; // what is asked

const LEDGER = readyLedger(fleetShape([{ hosts: [{}] }]));
const FLEET = "orbweaver-fleet";
const NEW = identityText({ pid: 7, host: "h", release: "0.2.0-abc", rules: 2 });

const rulesFound = async (
  polls: readonly Poll[],
  workers: readonly Listed[] = [],
): Promise<readonly (readonly [string, number])[]> => {
  const found = await livingProcesses(serverWith(polls, workers), LEDGER, {
    nowMs: NOW_MS,
    isGone: ({ host }) => host === "gone",
  });
  return found.map(({ identity, rules }) => [identity, rules]);
};

describe("the processes of a fleet that are alive", () => {
  it("know the rules that their identity names, and the first ones where it names none", async () => {
    const [agentQueue = ""] = [...LEDGER.hosts.values()].map(({ agent }) => agent?.orderQueue);
    const seen = [
      { queue: FLEET, identity: NEW },
      { queue: "orbweaver-jobs", identity: "8@h" },
      { queue: agentQueue, identity: "somebody" },
    ];
    expect(await rulesFound(seen)).toEqual([
      [NEW, 2],
      ["8@h", 1],
      ["somebody", 1],
    ]);
  });

  it.each([
    {
      name: "whose last poll is over",
      polls: [{ queue: FLEET, identity: "8@h", agoMs: POLL_OPEN_MS + 1_000 }],
    },
    { name: "that is gone here", polls: [{ queue: FLEET, identity: "8@gone" }] },
    {
      name: "of a client that registers a queue",
      polls: [{ queue: FLEET, identity: "orbweaver: registers the task queue" }],
    },
    {
      name: "that told the server of its end",
      polls: [{ queue: FLEET, identity: "8@h" }],
      workers: [{ taskQueue: FLEET, workerIdentity: "8@h", status: WORKER_STATUS_SHUTTING_DOWN }],
    },
  ])("do not include one $name", async ({ polls, workers = [] }) => {
    expect(await rulesFound(polls, workers)).toEqual([]);
  });

  it("include one that changed its version: one worker of it ended, the next runs", async () => {
    const workers = [WORKER_STATUS_SHUTTING_DOWN, WORKER_STATUS_RUNNING].map((status) => ({
      taskQueue: FLEET,
      workerIdentity: "8@h",
      status,
    }));
    expect(await rulesFound([{ queue: FLEET, identity: "8@h" }], workers)).toHaveLength(1);
  });
});

describe("the words of versions", () => {
  it("an identity tells what it was made of", () => {
    expect(parseIdentity(NEW)).toEqual({ pid: 7, host: "h", release: "0.2.0-abc", rules: 2 });
    expect(parseIdentity("8@h")).toEqual({ pid: 8, host: "h", rules: 1 });
    expect(parseIdentity("temporal-system")).toBeUndefined();
    expect(parseIdentity("8@h of another program")).toBeUndefined();
    expect(parseIdentity("8@h rules=2")).toBeUndefined();
    expect(parseIdentity(`${NEW} differs=missing:1,nvlink later=word trust=policy`)).toEqual({
      ...parseIdentity(NEW),
      trust: "policy",
      differences: ["missing:1", "nvlink"],
    });
  });

  it("a build id names rules or a build", () => {
    expect([rulesOfBuildId("rules-2"), rulesOfBuildId("0.1.0-abc")]).toEqual([2, undefined]);
  });

  it.each([
    { manager: "", committed: 1 },
    { manager: "an-operator@laptop", committed: 1 },
    { manager: managerOf(3), committed: 3 },
  ])("the manager $manager keeps rules $committed", async ({ manager, committed }) => {
    const info = { managerIdentity: manager, routingConfig: {} };
    const client = {
      options: { namespace: "default" },
      workflowService: {
        describeWorkerDeployment: () => Promise.resolve({ workerDeploymentInfo: info }),
      },
    } as unknown as Client; // what is asked
    expect(await readRouting(client, FLEET)).toMatchObject({ committed });
  });
});
