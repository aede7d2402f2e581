/** @file What an agent tells of the orders that its hosts have refused: every sender, however many there are, and also after a restart. */

import { ApplicationFailure } from "@temporalio/activity";
import type { ActivityInterceptorsFactory } from "@temporalio/worker";
import fc from "fast-check";
import { expect, it } from "vitest";
import { openHost } from "../../agent/runs/agent-host.ts";
import {
  addRefusal,
  MOST_REFUSED_SENDERS,
  OTHERS,
  readRefusedOrders,
  type RefusedOrder,
} from "../../domain/lease/refused-order.ts";
import { parseHostId } from "../../domain/values/ids.ts";
import { refusalTally, type RefusalTally } from "../../workers/refusal-tally.ts";
import { FakeMachine } from "../agent/fakes.ts";

const HOST = parseHostId("eu/a");
const OTHER = parseHostId("eu/b");

const tallyOn = (machine: FakeMachine): RefusalTally => {
  const system = machine.system();
  const open = (id: typeof HOST) =>
    [id, openHost({ stateDir: "/state", fleet: "f", id, gpuCount: 8 }, system)] as const;
  return refusalTally(new Map([open(HOST), open(OTHER)]), () => undefined);
};

/** An activity of the agent, asked for by a workflow, through the tally. */
async function ask(
  { interceptors }: RefusalTally,
  { from, order, does }: { from: string; order: unknown; does: () => Promise<unknown> },
): Promise<unknown> {
  const info = { activityType: "stop", workflowExecution: { workflowId: from } };
  const [witness] = interceptors.activity;
  const { inbound } = witness?.({
    info,
  } as unknown as Parameters<ActivityInterceptorsFactory>[0]) ?? { inbound: undefined };
  return await inbound?.execute?.({ args: [order], headers: {} }, does);
}

const refuses = () =>
  Promise.reject(ApplicationFailure.nonRetryable("it carries no ticket", "NOT_ALLOWED"));

it("a refusal is told, with the workflow that asked, and is there after a restart; what is obeyed or fails otherwise is not", async () => {
  const machine = new FakeMachine();
  const tally = tallyOn(machine);
  expect(tally.withRefusals(undefined)).toBeUndefined();
  const order = { host: OTHER, jobId: "victim" };
  await expect(ask(tally, { from: "mallory", order, does: refuses })).rejects.toThrow("no ticket");
  const report = { cause: { code: "NOT_ALLOWED", message: "it is not signed" } };
  const runs = () => Promise.resolve(report);
  expect(await ask(tally, { from: "thief", order: {}, does: runs })).toBe(report);
  await ask(tally, { from: "job", order, does: () => Promise.resolve({}) });
  const fails = () => Promise.reject(ApplicationFailure.nonRetryable("gone", "RUN_UNKNOWN"));
  await expect(ask(tally, { from: "job", order, does: fails })).rejects.toThrow("gone");

  const told = readRefusedOrders(tallyOn(machine).withRefusals({ use: {} }));
  const rows = [...told].map(([host, all]) => [host, all.map(({ atMs: _, ...row }) => row)]);
  expect(new Map(rows as [string, unknown][])).toEqual(
    new Map<string, unknown>([
      [HOST, [{ sender: "thief", times: 1, order: "stop", why: "it is not signed" }]],
      [
        OTHER,
        [{ sender: "mallory", times: 1, order: "stop of victim", why: "it carries no ticket" }],
      ],
    ]),
  );
});

it("what an order is refused after it was answered counts under the workflow that gave it", () => {
  const tally = tallyOn(new FakeMachine());
  const workflowExecution = { workflowId: "session", runId: "run-1" };
  const note = tally.later({ activityType: "dial", workflowExecution });
  note({ host: OTHER, jobId: "victim" }, "the policy denies it");
  expect(readRefusedOrders(tally.withRefusals(undefined)).get(OTHER)).toMatchObject([
    { sender: "session", times: 1, order: "dial of victim", why: "the policy denies it" },
  ]);
});

it("a heartbeat stays small whatever hosts are made to refuse, and has the newest", async () => {
  const machine = new FakeMachine();
  const ids = Array.from({ length: 60 }, (_, at) => parseHostId(`eu/${String(at)}`));
  const system = machine.system();
  const open = (id: typeof HOST) =>
    [id, openHost({ stateDir: "/state", fleet: "f", id, gpuCount: 8 }, system)] as const;
  const tally = refusalTally(new Map(ids.map(open)), () => undefined);
  const long = "\u4e00".repeat(300);
  for (const host of ids) {
    for (let at = 0; at < MOST_REFUSED_SENDERS; at += 1) {
      const order = { host, jobId: long };
      await ask(tally, { from: `${String(at)}${long}`, order, does: refuses }).catch(
        () => undefined,
      );
    }
    await machine.pass(1_000);
  }
  const beat = tally.withRefusals(undefined);
  expect(Buffer.byteLength(JSON.stringify(beat))).toBeLessThan(2 ** 18);
  const told = readRefusedOrders(beat);
  expect(told.get(parseHostId("eu/59"))).toHaveLength(MOST_REFUSED_SENDERS);
  expect(told.has(parseHostId("eu/0"))).toBe(false);
});

it("law: no refusal goes uncounted, the newest has its own row, and rows are few and short", () => {
  const senders = fc.array(fc.oneof(fc.integer({ min: 0, max: 40 }).map(String), fc.string()), {
    maxLength: 200,
  });
  fc.assert(
    fc.property(senders, (all) => {
      let rows: readonly RefusedOrder[] = [];
      for (const [atMs, sender] of all.entries()) {
        rows = addRefusal(rows, { sender, order: "x".repeat(500), why: "y".repeat(500), atMs });
        expect(rows.at(-1)).toMatchObject({ sender, atMs });
      }
      expect(rows.reduce((sum, { times }) => sum + times, 0)).toBe(all.length);
      expect(rows.length).toBeLessThanOrEqual(MOST_REFUSED_SENDERS);
      expect(new Set(rows.map(({ sender }) => sender)).size).toBe(rows.length);
      expect(JSON.stringify(rows).length).toBeLessThan(16_384);
      const read = readRefusedOrders({ refused: { "eu/a": rows } }).get(HOST);
      expect(read).toEqual(rows);
    }),
  );
  const flooded = Array.from({ length: 100 }, (_, at) => `m${String(at)}`);
  const rows = flooded.reduce<readonly RefusedOrder[]>(
    (before, sender, atMs) => addRefusal(before, { sender, order: "o", why: "w", atMs }),
    [],
  );
  expect(rows[0]).toMatchObject({ sender: OTHERS, times: 100 - (MOST_REFUSED_SENDERS - 1) });
});
