/** @file What a launch asks of the disk does not grow with the launches before it, of the host or of its own lease. */

import { expect, it } from "vitest";
import type { RunOrder } from "../../../protocol/agent-contract.ts";
import { token } from "../../../domain/values/ids.ts";
import { batchOf } from "../batch-fixture.ts";
import { fakeAgent, ranksOn } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { orderOf } from "../fixture.ts";

interface Asked {
  calls: number;
  /** Names that listed folders gave. */
  listed: number;
}

/** Counts what is asked of the host's disk from now on. */
function counted(files: object): Asked {
  const asked = { calls: 0, listed: 0 };
  const all = files as Record<string, (...parts: readonly unknown[]) => unknown>;
  for (const [name, step] of Object.entries(all))
    all[name] = (...parts) => {
      asked.calls += 1;
      const answer = step.apply(files, [...parts]);
      if (Array.isArray(answer)) asked.listed += answer.length;
      return answer;
    };
  return asked;
}

/** Of each launch, from its order to its report. */
async function costs(orders: readonly RunOrder[]): Promise<readonly Asked[]> {
  const machine = new FakeMachine();
  const agent = fakeAgent(machine);
  const asked = counted(agent.host.system.files);
  const found: Asked[] = [];
  for (const order of orders) {
    Object.assign(asked, { calls: 0, listed: 0 });
    let isOver = false;
    const report = agent.runs.run(order).finally(() => (isOver = true));
    while (!isOver) {
      for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
      await machine.pass(50);
    }
    expect((await report).end).toBe("completed");
    found.push({ ...asked });
  }
  return found;
}

const LAUNCHES = 40;
const numbers = Array.from({ length: LAUNCHES }, (_, at) => at + 1);

it.each([
  ["jobs", numbers.map((at) => orderOf("true", { token: token(at), jobId: `j-${at}` as never }))],
  [
    "batches of one lease",
    numbers.map((seq) => batchOf("true", { seq, tasks: [seq], slots: 1, count: LAUNCHES })),
  ],
])("of %s", async (_name, orders) => {
  const found = await costs(orders);
  const early = found[4];
  expect(early?.calls).toBeGreaterThan(0);
  expect(
    found
      .slice(5)
      .filter(({ calls, listed }) => calls > (early?.calls ?? 0) || listed > (early?.listed ?? 0)),
  ).toEqual([]);
});
