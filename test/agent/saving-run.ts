/** @file A run on a fake machine whose rank writes a checkpoint some time after SIGUSR1, and ignores TERM. */

import { expect } from "vitest";
import { completeIn, tokenDir } from "../../agent/folder/checkpoints.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { fakeAgent, ranksOn } from "./fake-host.ts";
import { FakeMachine } from "./fakes.ts";
import { JOB, orderOf } from "./fixture.ts";

interface Saving extends Partial<Pick<RunOrder, "hearsOfFaults">> {
  /** How long the rank may write. */
  readonly graceMs: number;
  readonly writesAfterMs: number;
}

export async function savingRun({ graceMs, writesAfterMs, ...over }: Saving) {
  const machine = new FakeMachine();
  const agent = fakeAgent(machine);
  const order = orderOf("train", {
    ...over,
    run: {
      graceMs: 2_000 as never,
      checkpoint: { order: { kind: "signal", signal: "SIGUSR1" }, graceMs: graceMs as never },
    },
  });
  const { files, clock } = machine.system();
  const dir = tokenDir(agent.host.layout.checkpointDir(JOB), order.token);
  const signals: string[] = [];
  machine.onSignal = (process, signal) => {
    signals.push(signal);
    if (signal === "SIGUSR1") clock.after(writesAfterMs, () => files.write(`${dir}/step-1`, "w"));
    if (signal === "SIGKILL") process.end({ signal });
  };
  const report = agent.runs.run(order);
  report.catch(() => undefined);
  await machine.pass(1_000);
  expect(ranksOn(machine)).toHaveLength(1);
  return { machine, agent, order, report, signals, made: () => completeIn(files, dir, undefined) };
}
