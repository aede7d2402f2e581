/** @file What an agent makes of launches that fail and of processes that they leave: wired to a driver's word, and told where no host is drained. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import { afterEach, describe, expect, it, vi } from "vitest";
import { NVML_VARIABLE } from "../../agent/system/gpu-driver.ts";
import { ownIdentity } from "../../agent/system/process-identity.ts";
import { watchHealth } from "../../workers/host-health.ts";
import { eventually, folder, HOST, orderOf, removeFolders, testAgent } from "../agent/fixture.ts";
import { drainUpdate, ledgerQuery, orderQuery } from "../../protocol/messages.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { fleetOf, SMALL_FLEET } from "../support/world.ts";
import { standInNvidiaSmi } from "../support/stand-in-nvidia-smi.ts";

let closing = new AbortController();
afterEach(() => {
  // What looks at GPUs again and again ends with its test.
  closing.abort();
  closing = new AbortController();
  vi.unstubAllEnvs();
  removeFolders();
});

/** Nobody answers there, and no test asks. */
const client = new Client({ connection: Connection.lazy({ address: "127.0.0.1:1" }) });
const uuid = "GPU-00000000-1111-2222-3333-444444444444";
const gpu = { index: 0, uuid, nodes: [], devices: [] };
const none = { command: ["/bin/false"], timeoutMs: 60_000 };

/** What a file with `setAside: false` says. */
function watched(epilogue?: typeof none, minFreeBytes = 0, asked: Client = client) {
  const notes: string[] = [];
  const health = { isSetAside: false, isGpuChecked: true, ...(epilogue && { epilogue }) };
  const watch = watchHealth(
    {
      ...{ health, client: asked, fleet: "f", hosts: [{ id: HOST, gpuCount: 1, gpus: [gpu] }] },
      minFreeBytes,
      onNote: (note) => notes.push(note),
    },
    closing.signal,
  );
  const { checkLease } = watch.on(HOST);
  return { notes, beat: () => watch.beat()?.left, checkLease, begin: watch.begin };
}

/** The whole machine's GPU, as the driver shows it, with these processes. */
function driver(computing: readonly number[]): void {
  const bin = join(folder(), "bin");
  standInNvidiaSmi(bin, { gpus: [{ device: "NVIDIA H100 80GB HBM3", computing }] });
  vi.stubEnv("PATH", bin);
  vi.stubEnv(NVML_VARIABLE, "off");
}

it("a host whose disk is full is to be drained", async () => {
  driver([]);
  const { notes, begin } = watched(undefined, 2 ** 60);
  void begin([testAgent().host]);
  await eventually(() => notes.some((note) => /^disk full since .*MiB are free for /.test(note)));
});

/** A fleet that takes every order as pending, and refuses it in its next turn. */
function refusingFleet(why: string): { readonly client: Client; readonly asked: string[] } {
  const asked: string[] = [];
  const { shape } = fleetOf(SMALL_FLEET);
  const workflow = {
    workflowId: "fleet-f",
    executeUpdate: (
      update: { readonly name: string },
      { updateId }: { readonly updateId: string },
    ) => {
      asked.push(`${update.name} ${updateId}`);
      return Promise.resolve(null);
    },
    query: (query: { readonly name: string }, updateId?: string) => {
      if (query.name === ledgerQuery.name) return Promise.resolve(packLedger(emptyLedger(shape)));
      asked.push(`${query.name} ${String(updateId)}`);
      return Promise.resolve({ kind: "refused", code: "NOT_ALLOWED", message: why });
    },
  };
  const call = (_until: unknown, work: () => unknown): unknown => work();
  const played = {
    ...{ workflow: { getHandle: () => workflow }, options: { namespace: "default" } },
    ...{ withAbortSignal: call, withDeadline: call },
  };
  // The calls that orders make.
  return { client: played as unknown as Client, asked };
}

it("an agent asks what became of its drain, and says so where the fleet has refused it", async () => {
  driver([]);
  const { client: refusing, asked } = refusingFleet("it is signed with no key of agents");
  const { notes, begin } = watched(undefined, 2 ** 60, refusing);
  void begin([testAgent().host]);
  await eventually(() =>
    notes.some((note) => /could not be told .*it is signed with no key of agents/.test(note)),
  );
  const [drain = "", question = ""] = asked;
  expect([drain.split(" ")[0], question.split(" ")[0]]).toEqual([
    drainUpdate.name,
    orderQuery.name,
  ]);
  expect(question.split(" ")[1]).toBe(drain.split(" ")[1]);
});

describe("a host that is not to be set aside", () => {
  it("is told of instead, in the log and by heartbeats, when an epilogue fails", async () => {
    driver([]);
    const { notes, beat, checkLease } = watched(none);
    expect(beat()).toBeUndefined();
    const failed = await checkLease("epilogue", { order: orderOf("true"), gpus: [0] });
    expect(failed).toMatchObject({ kind: "failed" });
    expect(notes).toEqual([
      expect.stringMatching(
        /^eu-1\/host-1: not drained, as its health file says, though to be set aside at .*: the epilogue of lease-5 failed: \/bin\/false/,
      ),
    ]);
    expect(beat()).toEqual({ [HOST]: expect.stringContaining("epilogue of lease-5") as string });
  });
});

describe("a launch's GPUs", () => {
  const supervisor = ownIdentity();

  it("are free where the driver names no process, or none of the launch's time", async () => {
    // The parent of this process began before it.
    driver([process.ppid]);
    const { notes, checkLease } = watched();
    const over = await checkLease("epilogue", { order: orderOf("true"), gpus: [0], supervisor });
    expect(over).toEqual({ kind: "passed" });
    expect(notes).toEqual([]);
  });

  it("wait for a process that the driver names", async () => {
    const left = spawn("/bin/sleep", ["600"]);
    const gone = once(left, "exit");
    driver([left.pid ?? 0]);
    const { notes, checkLease } = watched();
    const checked = checkLease("epilogue", { order: orderOf("true"), gpus: [0], supervisor });
    const first = await Promise.race([checked, sleep(500, "waits")]);
    expect(first).toBe("waits");
    left.kill("SIGKILL");
    await gone;
    expect(await checked).toEqual({ kind: "passed" });
    expect(notes).toEqual([]);
  });

  it("are free where the driver fails, and that is said", async () => {
    driver([]);
    const bin = process.env["PATH"] ?? "";
    writeFileSync(join(bin, "nvidia-smi"), "#!/bin/sh\nexit 9\n");
    const { notes, checkLease } = watched();
    const over = await checkLease("epilogue", { order: orderOf("true"), gpus: [0], supervisor });
    expect(over).toEqual({ kind: "passed" });
    expect(notes).toEqual([expect.stringContaining("who computes on its GPUs is not known")]);
  });
});
