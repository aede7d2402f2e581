/**
 * @file An agent's process for `bench launch`: `node launcher.js <bare|native|node> <launches> <held> <folder>` prints a `Measured` as JSON.
 *
 * The processor time is this process's, its starter's, and that of all that these have waited for: supervisors, and ranks that these have waited for.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { Claim } from "../../agent/folder/launch-files.ts";
import { launchFiles } from "../../agent/folder/launch-files.ts";
import { readJson } from "../../agent/folder/json-files.ts";
import { openHost } from "../../agent/runs/agent-host.ts";
import { untilPhase } from "../../agent/runs/local-run.ts";
import { killAll } from "../../agent/runs/process-end.ts";
import { createRunActivities } from "../../agent/runs/run-activities.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { findNative, nativeFile } from "../../agent/system/native-supervisor.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { openStarter } from "../../agent/system/starter.ts";
import { hostId, jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import { ms } from "../../domain/values/units.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import { childrenCpuMs, childrenOf, treeCpuMs } from "../live/cpu.ts";

export interface Measured {
  readonly containment: string;
  /** Milliseconds of processor time a launch. */
  readonly cpuMs: number;
  /** MiB of a supervisor; NaN where none was held. */
  readonly supervisorMiB: number;
}

const LANES = 4;
const WARM_UPS = 20;
const LOOK_MS = 20;
const HOST = hostId("bench", "host-1");
/** Each launch has a host's 24 GPUs in turn: a token per GPU is kept. */
const GPUS = 24;

const [mode = "", countText = "", heldText = "", dir = ""] = process.argv.slice(2);
const containment = findContainment();
const host = openHost(
  { stateDir: dir, fleet: "bench", id: HOST, gpuCount: GPUS, containment },
  nodeSystem,
);
const native = mode === "native" ? findNative(nativeFile(packageRoot()), "native") : undefined;
const starter =
  native === undefined ? undefined : openStarter(native, new AbortController().signal);
const { run } = createRunActivities({
  hosts: new Map([[HOST, host]]),
  gang: { look: () => Promise.resolve({ isClosed: false, beats: [] }) },
  contact: { isInDoubt: () => false, isCutOff: () => false, noteAnswer: () => undefined },
  task: () => ({
    heartbeat: () => undefined,
    cancelled: new AbortController().signal,
    givenAtMs: 0,
    reason: () => "asked",
  }),
  onUnattended: () => undefined,
  shimPath: join(packageRoot(), "dist/workers/shim.cjs"),
  nativePath: native,
  starter,
  env: process.env,
  log: { partBytes: 8 * 2 ** 20, parts: 4 },
  refusalOf: () => Promise.resolve(undefined),
  readSecrets: () => Promise.resolve({ kind: "read", values: {} }),
  minFreeBytes: 0,
});
let orders = 0;

function nextOrder(command: readonly string[]): RunOrder {
  orders += 1;
  const id = jobId(`bench-${String(orders)}`);
  return {
    jobId: id,
    jobName: "bench",
    workflowId: id,
    workflowRunId: "run-1",
    leaseId: leaseId(token(orders)),
    token: token(orders),
    attempt: 1,
    host: HOST,
    gang: [{ host: HOST, mask: 2 ** (orders % GPUS), address: "127.0.0.1" }],
    holder: {
      ...{ runId: runId("run-1"), seq: 1, class: "training", tenant: tenantId("default") },
      ...{ grantedAtMs: 0, requestedAtMs: 0 },
    },
    prepareTimeoutMs: 60_000,
    run: { command, env: {}, launch: "per-gpu", graceMs: ms(1_000) },
  };
}

async function launch(): Promise<void> {
  const { end } = await run(nextOrder(["/bin/true"]));
  if (end !== "completed") throw new Error(`a launch of true ended as ${end}`);
}

async function bare(): Promise<void> {
  const [code] = (await once(spawn("/bin/true", { stdio: "ignore" }), "exit")) as [number];
  if (code !== 0) throw new Error(`true ended with ${String(code)}`);
}

async function repeat(count: number, one: () => Promise<void>): Promise<void> {
  let left = count;
  const lane = async (): Promise<void> => {
    while (left > 0) {
      left -= 1;
      await one();
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  while (childCount() > 0) await sleep(LOOK_MS);
}

/** A supervisor ends a moment after its launch: only then has its time been counted. The starter stays. */
const childCount = (): number =>
  starter?.pid === undefined
    ? childrenOf(process.pid).length
    : childrenOf(process.pid).length - 1 + childrenOf(starter.pid).length;

function cpuMs(): number {
  const { user, system } = process.cpuUsage();
  const starterMs = starter?.pid === undefined ? 0 : treeCpuMs(starter.pid);
  return (user + system) / 1_000 + childrenCpuMs() + starterMs;
}

async function cpuEach(count: number, one: () => Promise<void>): Promise<number> {
  await repeat(WARM_UPS, one);
  const before = cpuMs();
  await repeat(count, one);
  return (cpuMs() - before) / count;
}

/** At most as many as the host has GPUs would hold without this: each of its GPUs takes one launch. */
async function supervisorMiB(count: number): Promise<number> {
  let sumKiB = 0;
  for (let done = 0; done < count; done += GPUS) {
    const held = Array.from({ length: Math.min(GPUS, count - done) }, () =>
      nextOrder(["/bin/sleep", "600"]),
    );
    const launches = held.map((order) => ({
      system: nodeSystem,
      files: launchFiles(host.layout.leaseDir(order.leaseId)),
    }));
    const ends = held.map(run);
    for (const each of launches) {
      while (nodeSystem.files.stat(each.files.status) === undefined) await sleep(LOOK_MS);
      await untilPhase(each, ["running"]);
    }
    for (const { files } of launches) {
      const claim = readJson<Claim>(nodeSystem.files, files.claim);
      if (claim?.kind === "shim") sumKiB += memoryKiB(claim.shim.pid);
    }
    await Promise.all(launches.map(killAll));
    await Promise.all(ends);
  }
  return sumKiB / 1_024 / count;
}

const memoryKiB = (pid: number): number =>
  Number(
    /^Pss: +(\d+)/m.exec(readFileSync(`/proc/${String(pid)}/smaps_rollup`, "latin1"))?.[1] ?? NaN,
  );

const measured: Measured = {
  containment: containment.kind,
  cpuMs: await cpuEach(Number(countText), mode === "bare" ? bare : launch),
  supervisorMiB: mode === "bare" ? NaN : await supervisorMiB(Number(heldText)),
};
process.stdout.write(JSON.stringify(measured));
process.exit();
