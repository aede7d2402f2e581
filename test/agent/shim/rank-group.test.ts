import { describe, expect, it } from "vitest";
import { startRanks, type RankGroupPlan } from "../../../agent/shim/rank-group.ts";
import { FakeMachine } from "../fakes.ts";

const PLAN: RankGroupPlan = {
  command: ["train"],
  cwd: "/",
  ranks: [0, 1].map((rank) => ({ rank, env: { RANK: String(rank) } })),
  graceMs: 10_000,
  log: { partBytes: 1_000, parts: 2 },
  container: { kind: "marks" },
};

function groupOf(over: Partial<RankGroupPlan> = {}, isNotified = false) {
  const machine = new FakeMachine();
  const signals: string[] = [];
  machine.onSignal = (process, signal) => {
    signals.push(`${process.order.env["RANK"]}:${signal}`);
    if (signal === "SIGKILL") process.end({ signal });
  };
  let ends = 0;
  const group = startRanks(
    { ...PLAN, ...over },
    {
      logDirOf: (rank) => `/log/${rank}`,
      isNotified: () => isNotified,
      onChange: () => undefined,
      onEnd: () => (ends += 1),
    },
    machine.system(),
  );
  const rank = (at: number) => [...machine.running.values()][at];
  return { machine, signals, group, rank, ended: () => ends };
}

describe("a group of ranks", () => {
  it("tells the others to end when one fails, and kills them after exactly the grace", async () => {
    const { machine, signals, group, rank, ended } = groupOf();
    rank(0)?.end({ exitCode: 3 });
    await machine.pass(9_999);
    expect(signals).toEqual(["1:SIGTERM"]);
    await machine.pass(1);
    expect(signals).toEqual(["1:SIGTERM", "1:SIGKILL"]);
    await machine.pass(1);
    expect([ended(), group.status().failure]).toMatchObject([1, { rank: 0, exitCode: 3 }]);
  });

  it("sends no second TERM when the agent has sent one", async () => {
    const { machine, signals, rank } = groupOf({}, true);
    rank(0)?.end({ exitCode: 3 });
    await machine.pass(20_000);
    expect(signals).toEqual(["1:SIGKILL"]);
  });

  it("ends at its time limit, also one of many days", async () => {
    const limitMs = 40 * 86_400_000;
    const { machine, signals, group } = groupOf({ timeLimitMs: limitMs });
    await machine.pass(limitMs - 1);
    expect(signals).toEqual([]);
    await machine.pass(1);
    expect(signals).toEqual(["0:SIGTERM", "1:SIGTERM"]);
    expect(group.status().limitAtMs).toBe(machine.wallMs);
  });

  it("keeps what a rank writes", async () => {
    const { machine, rank } = groupOf();
    const output = rank(1)?.order.output;
    if (output === undefined || typeof output === "string") throw new Error("no reader");
    output.onOutput("out", Buffer.from("step 1\n"));
    await machine.pass(1);
    expect(machine.text("/log/1/0000000000000000.log")).toBe("step 1\n");
  });
});
