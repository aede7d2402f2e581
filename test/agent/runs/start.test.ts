import { describe, expect, it } from "vitest";
import type { RunOrder } from "../../../protocol/agent-contract.ts";
import { fakeAgent, ranksOn, type FakeAgent } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { HOST, orderOf, OTHER_HOST } from "../fixture.ts";

const GANG = [
  { host: HOST, mask: 0b11, address: "10.0.0.1" },
  { host: OTHER_HOST, mask: 0b1, address: "10.0.0.2" },
];

/** Two machines with an agent each; each sees the other's heartbeats, and both clocks move together. */
function pair() {
  const machines = [new FakeMachine(), new FakeMachine()] as const;
  const agents: FakeAgent[] = [];
  const view = () => ({
    isClosed: false,
    beats: agents.flatMap((agent) => agent.lastBeat() ?? []),
  });
  agents.push(fakeAgent(machines[0], { id: HOST, view }));
  agents.push(fakeAgent(machines[1], { id: OTHER_HOST, view }));
  const ordersOf = (over: Partial<Omit<RunOrder, "run">> = {}) =>
    [HOST, OTHER_HOST].map((host) =>
      orderOf("train", { gang: GANG, host, prepareTimeoutMs: 5_000, ...over }),
    );
  const pass = async (forMs: number): Promise<void> => {
    for (let leftMs = forMs; leftMs > 0; leftMs -= 50)
      for (const machine of machines) await machine.pass(50);
  };
  const start = (orders = ordersOf()) =>
    agents.map((agent, at) =>
      agent.runs.run(orders[at] ?? orderOf("")).then(
        (report) => ({ report, error: undefined }),
        (error: unknown) => ({ report: undefined, error }),
      ),
    );
  return { machines, agents, pass, start };
}

describe("a start in two phases", () => {
  it("starts every rank once all hosts are prepared, with one port", async () => {
    const { machines, pass, start } = pair();
    const ends = start();
    await pass(2_000);
    expect(machines.map((machine) => ranksOn(machine).length)).toEqual([2, 1]);
    const envs = machines.flatMap((machine) => ranksOn(machine).map(({ order }) => order.env));
    expect(new Set(envs.map((env) => env["MASTER_PORT"])).size).toBe(1);
    expect(envs.map((env) => env["RANK"])).toEqual(["0", "1", "2"]);
    for (const machine of machines) for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    await pass(3_000);
    for (const end of ends) expect((await end).report?.end).toBe("completed");
  });

  it("starts no rank anywhere when one host refuses, and the other names it", async () => {
    const { machines, pass, start } = pair();
    machines[1].freeBytes = 10;
    const [first, second] = start();
    await pass(6_000);
    expect((await second)?.error).toMatchObject({ type: "HOST_REFUSED" });
    expect((await first)?.error).toMatchObject({
      type: "GANG_NOT_READY",
      message: expect.stringContaining(OTHER_HOST),
    });
    expect(machines.flatMap((machine) => ranksOn(machine))).toEqual([]);
  });

  it("never starts after its time: a later attempt under the token is refused", async () => {
    const { machines, agents, pass, start } = pair();
    machines[1].freeBytes = 10;
    void start();
    await pass(6_000);
    machines[1].freeBytes = 2 ** 40;
    const again = agents[0]?.runs.run(orderOf("train", { gang: GANG }));
    const refused = expect(again).rejects.toMatchObject({ type: "STALE_TOKEN" });
    await pass(1_000);
    await refused;
    expect(ranksOn(machines[0])).toEqual([]);
  });
});
