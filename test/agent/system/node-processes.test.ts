/** @file A look at the machine's processes leaves out those that a former look has found to be too old, and never one that is not. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { setTimeout } from "node:timers/promises";
import { afterEach, expect, it } from "vitest";
import { nodeProcesses } from "../../../agent/system/node-processes.ts";
import { identityOf } from "../../../agent/system/process-identity.ts";

const started: ChildProcess[] = [];
afterEach(async () => {
  for (const child of started.splice(0)) {
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  }
});

/** A process that has begun some ticks of the kernel's clock after all before. */
async function sleeper() {
  await setTimeout(50);
  const child = spawn("sleep", ["1000"]);
  started.push(child);
  await once(child, "spawn");
  const identity = identityOf(child.pid ?? 0);
  if (identity === undefined) throw new Error("sleep has ended");
  return identity;
}

const seenBy = (notBefore: Awaited<ReturnType<typeof sleeper>>): ReadonlySet<number> =>
  new Set(nodeProcesses.all(notBefore).map(({ pid }) => pid));

it.runIf(process.platform === "linux")(
  "leaves out what began before, and has it again for an earlier beginning",
  async () => {
    const [first, second] = [await sleeper(), await sleeper()];
    expect([...seenBy(first)]).toEqual(expect.arrayContaining([first.pid, second.pid]));
    for (let look = 0; look < 3; look += 1) {
      // A process that this or another look has remembered as too old is left out.
      expect(seenBy(second).has(first.pid)).toBe(false);
      expect(seenBy(second).has(second.pid)).toBe(true);
      expect(seenBy(first).has(first.pid)).toBe(true);
    }
    const third = await sleeper();
    expect(seenBy(second).has(third.pid)).toBe(true);
    expect(seenBy(third).has(first.pid)).toBe(false);
    expect(nodeProcesses.all(undefined).map(({ pid }) => pid)).toContain(first.pid);
  },
);
