import { existsSync } from "node:fs";
import { afterEach, describe, expect, it } from "vitest";
import { nodeSystem } from "../../agent/system/node-system.ts";
import type { GangView } from "../../agent/ports/temporal.ts";
import { awaitSiblings } from "../../agent/runs/gang-barrier.ts";
import type { RunHeartbeat } from "../../protocol/agent-contract.ts";
import { hostId, token } from "../../domain/values/ids.ts";
import {
  HOST,
  OTHER_HOST,
  eventually,
  gangOf,
  orderOf,
  outputOf,
  removeFolders,
  stopOf,
  testAgent,
  type TestAgent,
} from "./fixture.ts";

afterEach(removeFolders);

const THIRD_HOST = hostId("eu-1", "host-3");
const beat = (over: Partial<RunHeartbeat> = {}): RunHeartbeat => ({
  phase: "prepared",
  host: OTHER_HOST,
  token: token(5),
  ...over,
});
const view = (...beats: readonly RunHeartbeat[]): GangView => ({ isClosed: false, beats });
/** This host is second, so rank 0 and the port are elsewhere. */
const GANG = [
  { host: OTHER_HOST, mask: 0b111, address: "10.0.0.2" },
  { host: HOST, mask: 0b1, address: "10.0.0.1" },
];
const SHOW =
  'echo "$RANK/$WORLD_SIZE local $LOCAL_RANK/$LOCAL_WORLD_SIZE node $NODE_RANK/$NNODES at $MASTER_ADDR:$MASTER_PORT"';

describe("a gang over two hosts", () => {
  it("starts when the other one is prepared, with its port and ranks in gang order", async () => {
    let looks = 0;
    const agent = testAgent({
      gang: gangOf(() =>
        ++looks < 3
          ? view()
          : looks < 6
            ? view(beat({ masterPort: 2_345 }))
            : view(beat({ phase: "running", masterPort: 2_345 })),
      ),
    });
    const order = orderOf(SHOW, { gang: GANG });
    expect((await agent.runs.run(order)).end).toBe("completed");
    expect(await outputOf(agent, order, 3)).toBe("3/4 local 0/1 node 1/2 at 10.0.0.2:2345\n");
    expect(looks).toBeGreaterThanOrEqual(3);
    expect(agent.task.beats[0]).toEqual({ phase: "prepared", host: HOST, token: 5 });
  });

  it("starts when the other one runs already", async () => {
    const agent = testAgent({
      gang: gangOf(() => view(beat({ phase: "running", masterPort: 2_345 }))),
    });
    expect((await agent.runs.run(orderOf("exit 0", { gang: GANG }))).end).toBe("completed");
  });

  it("goes on looking while the server does not answer", async () => {
    let looks = 0;
    const agent = testAgent({
      gang: {
        look: () =>
          ++looks < 3
            ? Promise.reject(new Error("no connection"))
            : Promise.resolve(view(beat({ phase: "running", masterPort: 1 }))),
      },
    });
    expect((await agent.runs.run(orderOf("exit 0", { gang: GANG }))).end).toBe("completed");
  });

  it("does not start when one is not ready in time, and names it", async () => {
    const agent = testAgent({
      gang: gangOf(() =>
        view(beat({ masterPort: 1 }), beat({ host: THIRD_HOST, token: token(4) })),
      ),
    });
    const order = orderOf("exit 0", {
      gang: [...GANG, { host: THIRD_HOST, mask: 1, address: "" }],
      prepareTimeoutMs: 300,
    });
    const failed = expect(agent.runs.run(order)).rejects;
    await failed.toMatchObject({
      type: "GANG_NOT_READY",
      nonRetryable: true,
      message: expect.stringMatching(/for eu-1\/host-3\./),
    });
    expect(existsSync(agent.filesOf(order).status)).toBe(false);
    await expect(agent.runs.run(order)).rejects.toMatchObject({ type: "STALE_TOKEN" });
  });

  it.each([
    {
      name: "it is cancelled",
      call: async (agent: TestAgent) => agent.task.cancel("asked"),
    },
    {
      name: "it is stopped",
      call: (agent: TestAgent) => agent.orders.stop(stopOf(orderOf(""))),
    },
  ])("starts nothing when $name while it waits, and never will", async ({ call }) => {
    const agent = testAgent({ gang: gangOf(() => view()) });
    const order = orderOf("exit 0", { gang: GANG });
    const running = agent.runs.run(order);
    await eventually(() => agent.task.beats.length > 0);
    await call(agent);
    expect(await running).toMatchObject({
      host: HOST,
      hasStarted: false,
      end: "stopped",
      ranks: [],
    });
    expect(existsSync(agent.filesOf(order).status)).toBe(false);
    expect(await testAgent({ stateDir: agent.stateDir }).runs.run(order)).toMatchObject({
      hasStarted: false,
      end: "stopped",
    });
  });

  it("starts nothing when its job is gone", async () => {
    const agent = testAgent({ gang: gangOf(() => ({ isClosed: true, beats: [] })) });
    expect(await agent.runs.run(orderOf("exit 0", { gang: GANG }))).toMatchObject({
      hasStarted: false,
      end: "stopped",
    });
  });

  it("waits on with a later agent when the first one ends during the wait, and keeps its port", async () => {
    const first = [...GANG].reverse();
    const old = testAgent({ gang: gangOf(() => view()) });
    const order = orderOf(SHOW, { gang: first });
    const abandoned = old.runs.run(order);
    await eventually(() => old.task.beats.length > 0);
    old.task.cancel("shutdown");
    await expect(abandoned).rejects.toMatchObject({ type: "HOST_LOST" });
    const restarted = testAgent({
      stateDir: old.stateDir,
      gang: gangOf(() => view(beat({ phase: "running" }))),
    });
    expect((await restarted.runs.run(order)).end).toBe("completed");
    const port = old.task.beats[0]?.masterPort;
    expect(restarted.task.beats[0]?.masterPort).toBe(port);
    expect(await outputOf(restarted, order)).toBe(`0/4 local 0/1 node 0/2 at 10.0.0.1:${port}\n`);
  });

  it("says rank 0's port for as long as it runs: a sibling may look only then", async () => {
    const agent = testAgent({
      gang: gangOf(() => view(beat({ phase: "running" }))),
    });
    await agent.runs.run(orderOf("exit 0", { gang: [...GANG].reverse() }));
    const [prepared, running] = agent.task.beats;
    expect(prepared).toMatchObject({ phase: "prepared", masterPort: expect.any(Number) });
    expect(running).toMatchObject({ phase: "running", masterPort: prepared?.masterPort });
  });

  it("keeps a run that ended at once in sight until its sibling has seen it", async () => {
    let looks = 0;
    const order = orderOf("", { gang: GANG });
    const gang = gangOf(() => (++looks < 3 ? view(beat()) : view(beat({ phase: "running" }))));
    await awaitSiblings(order, {
      gang,
      clock: nodeSystem.clock,
      signal: new AbortController().signal,
      barrierAtMs: performance.now(),
    });
    expect(looks).toBe(3);
    await awaitSiblings(order, {
      gang,
      clock: nodeSystem.clock,
      signal: new AbortController().signal,
      barrierAtMs: performance.now() - 600_000,
    });
    expect(looks).toBe(3);
  });
});
