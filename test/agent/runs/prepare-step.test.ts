/** @file Commands of a host's preparation: what they signal, and how one looks for a working folder as the job's user. */

import { chmodSync, chownSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { openHost } from "../../../agent/runs/agent-host.ts";
import type { LocalRun } from "../../../agent/runs/local-run.ts";
import { lookForWorkdir, runStep } from "../../../agent/runs/prepare-step.ts";
import { launchFiles } from "../../../agent/folder/launch-files.ts";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { isRoot, NOBODY } from "../../support/as-user.ts";
import { removeFolder } from "../../support/remove-folder.ts";
import { fakeAgent } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";
import { HOST, orderOf } from "../fixture.ts";

/** Of a launch, all that such a command needs. */
const runIn = (dir: string): LocalRun => ({ files: launchFiles(dir) }) as unknown as LocalRun;

it("signals nothing once its command has ended, because its number may be another's by then", async () => {
  const machine = new FakeMachine();
  const { host } = fakeAgent(machine);
  machine.onStart = (started) => started.end({ exitCode: 0 });
  const signalGroup = vi.spyOn(host.system.processes, "signalGroup");
  const called = new AbortController();
  const order = orderOf("train");
  const step = { host, run: runIn("/state/launch"), order, ports: { env: {} } };
  const of = { command: ["fetch"], env: {}, output: "fetch.log", timeoutMs: 1_000 };
  const why = await runStep({ ...step, signal: called.signal }, of);
  await machine.pass(2_000);
  called.abort();
  expect([why, signalGroup.mock.calls]).toEqual([undefined, []]);
});

it("ends its command when its time is over", async () => {
  const machine = new FakeMachine();
  const { host } = fakeAgent(machine);
  machine.onStart = () => undefined;
  machine.onSignal = (target, signal) => target.end({ signal });
  const step = { host, run: runIn("/state/launch"), order: orderOf("train"), ports: { env: {} } };
  const of = { command: ["fetch"], env: {}, output: "fetch.log", timeoutMs: 1_000 };
  const why = runStep({ ...step, signal: new AbortController().signal }, of);
  await machine.pass(2_000);
  expect(await why).toBe("it was not there within 1 s");
});

it.runIf(isRoot)(
  "a host of root finds the working folders of a job that the job's user finds, those of the host's /tmp too",
  async () => {
    const dir = mkdtempSync(join(tmpdir(), "ow-workdir-"));
    onTestFinished(() => removeFolder(dir));
    chmodSync(dir, 0o755);
    const [own, closed, stateDir] = ["own", "closed", "state"].map((name) => join(dir, name)) as [
      string,
      string,
      string,
    ];
    for (const each of [own, join(closed, "inside"), join(stateDir, "launch")])
      mkdirSync(each, { recursive: true });
    chmodSync(closed, 0o700);
    chmodSync(own, 0o700);
    chownSync(own, NOBODY, NOBODY);
    const host = openHost({ stateDir, fleet: "default", id: HOST, gpuCount: 1 }, nodeSystem);
    const user = { name: "nobody", uid: NOBODY, gid: NOBODY, groups: [NOBODY], home: dir };
    const limits = { processes: 1_000, openFiles: 1_000 };
    const look = (workdir: string): Promise<void> =>
      lookForWorkdir({
        ...{ host, run: runIn(join(stateDir, "launch")), signal: new AbortController().signal },
        order: orderOf("train", { run: { workdir } }),
        ports: { env: process.env, runAsOf: () => ({ user, limits, stateDir }) },
      });
    await look(own);
    for (const hidden of [closed, join(closed, "inside"), join(closed, "none"), join(dir, "none")])
      await expect(look(hidden)).rejects.toMatchObject({
        type: "HOST_REFUSED",
        message: expect.stringContaining(`the working folder ${hidden} does not exist there`),
      });
  },
);
