/** @file Jobs that no end of other jobs would start are refused before they are queued, by the present ledger alone, and nothing else is. */

import type { Client } from "@temporalio/client";
import { defaultDataConverter } from "@temporalio/common";
import { describe, expect, it } from "vitest";
import { OrbweaverClient, type JobFile } from "../../client/index.ts";
import { FLEET_WORKFLOW } from "../../protocol/messages.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { fleetShape, gpus, readyLedger } from "../scheduling/builders.ts";
import { busyLedger } from "../scheduling/preemption/victims.ts";

/** Two hosts of eight H100. */
const SHAPE = fleetShape(
  [{ name: "eu", jurisdiction: "EU", hosts: [{}, {}] }],
  [{ id: "small", quota: { H100: 4 } }],
);
const SIXTEEN = readyLedger(SHAPE);
const EIGHT = readyLedger(fleetShape([{ name: "eu", jurisdiction: "EU", hosts: [{}] }]));
const FULL = busyLedger(SHAPE, [["r", gpus(["eu/h0", 0xff], ["eu/h1", 0xff]), { gpus: 16 }]], []);
const DRAINED: Ledger = {
  ...SIXTEEN,
  hosts: new Map([...SIXTEEN.hosts].map(([id, host]) => [id, { ...host, isDrained: true }])),
};
const EMPTY = readyLedger(fleetShape([{ name: "eu", jurisdiction: "EU", hosts: [] }]));

interface Fleet {
  /** With which its present run began; absent: there is no such fleet. */
  readonly began?: Ledger;
  /** Absent: it does not answer. */
  readonly now?: Ledger | "else";
}

function clientOf({ began, now }: Fleet) {
  const started: string[] = [];
  const calls = { readings: 0, queries: 0 };
  const { payloadConverter } = defaultDataConverter;
  const client = {
    options: {
      namespace: "n",
      loadedDataConverter: { ...defaultDataConverter, payloadCodecs: [] },
    },
    withDeadline: (_ms: number, call: () => Promise<unknown>) => call(),
    workflow: {
      start: (_type: string, { workflowId }: { readonly workflowId: string }) => {
        started.push(workflowId);
        return Promise.resolve({});
      },
      getHandle: () => ({
        query: () => {
          calls.queries += 1;
          return now === undefined
            ? Promise.reject(new Error("deadline exceeded"))
            : Promise.resolve(now === "else" ? { codec: now } : packLedger(now));
        },
      }),
    },
    workflowService: {
      getWorkflowExecutionHistory: () => {
        calls.readings += 1;
        if (began === undefined) return Promise.reject(new Error("workflow not found"));
        const input = payloadConverter.toPayload({ name: "default", ledger: packLedger(began) });
        const attributes = {
          workflowType: { name: FLEET_WORKFLOW },
          input: { payloads: [input] },
        };
        return Promise.resolve({
          history: { events: [{ workflowExecutionStartedEventAttributes: attributes }] },
        });
      },
    },
  };
  // The fake has what a submit uses of a client and nothing else.
  return { client: new OrbweaverClient(client as unknown as Client), started, calls };
}

const job = (gang: number, more: Partial<JobFile> = {}): JobFile => ({
  ...{ name: "large", gang, run: { command: ["true"] } },
  ...more,
});

describe("a job that would never start", () => {
  it("is refused with the constraint, the numbers and the remedy, and nothing is queued", async () => {
    const { client, started } = clientOf({ began: SIXTEEN, now: SIXTEEN });
    const refused = client.submit(job(64));
    await expect(refused).rejects.toMatchObject({
      code: "NEVER_STARTS",
      message: expect.stringMatching(
        /^large would never start on fleet default.*NoMatchingFlavor\nit needs 64 GPUs; this fleet has 16 .*\nwould change it: ask for 16 of the 64 GPUs.*\n.*--queue-anyway/,
      ) as string,
      details: {
        jobs: [{ name: "large", reason: { code: "NoMatchingFlavor", numbers: { needGpus: 64 } } }],
      },
    });
    expect(started).toEqual([]);
  });

  it.each<[string, JobFile, string]>([
    [
      "of a type that is not there",
      job(1, { constraints: { gpuTypes: ["B200"] } }),
      "NoMatchingFlavor",
    ],
    ["of an array", job(64, { array: { count: 3 } }), "NoMatchingFlavor"],
    ["that is held", job(64, { hold: true }), "NoMatchingFlavor"],
    ["beyond the quota", job(8, { tenant: "small" }), "ExceedsMaxQuota"],
    ["on one host", job(16, { constraints: { sameHost: true } }), "NoMatchingFlavor"],
  ])("%s is refused on an idle fleet and on a full one", async (_, file, code) => {
    for (const ledger of [SIXTEEN, FULL]) {
      const { client, started } = clientOf({ began: ledger, now: ledger });
      await expect(client.submit(file)).rejects.toMatchObject({
        code: "NEVER_STARTS",
        details: { jobs: [{ reason: { code } }] },
      });
      expect(started).toEqual([]);
    }
  });

  it("is queued when that is asked for, and nothing is read for it", async () => {
    const { client, started, calls } = clientOf({ began: SIXTEEN, now: SIXTEEN });
    await client.submit(job(64), { isQueuedAnyway: true });
    expect([started.length, calls]).toEqual([1, { readings: 0, queries: 0 }]);
  });

  it("keeps all jobs of its list out, and is named with every other one", async () => {
    const { client, started } = clientOf({ began: SIXTEEN, now: SIXTEEN });
    const list = [job(1), job(64), job(99, { name: "larger" }), job(64, { name: "same" })];
    await expect(client.submitAll(list)).rejects.toMatchObject({
      message: expect.stringMatching(
        /^large and 1 more like it would.*[^]*^larger would/m,
      ) as string,
      details: { jobs: [{ name: "large" }, { name: "same" }, { name: "larger" }] },
    });
    expect(started).toEqual([]);
  });
});

it("a list of many that differ is refused by the first of them, and others have their turn meanwhile", async () => {
  const { client } = clientOf({ began: SIXTEEN, now: SIXTEEN });
  let turns = 0;
  let isOver = false;
  const count = (): void => {
    turns += 1;
    if (!isOver) setImmediate(count);
  };
  setImmediate(count);
  const list = Array.from({ length: 40 }, (_, at) => job(64 + at, { name: `j${String(at)}` }));
  const refusal = await client.checkStarts(list).catch((error: unknown) => error);
  isOver = true;
  const names = Array.from({ length: 8 }, (_, at) => ({ name: `j${String(at)}` }));
  expect(refusal).toMatchObject({ code: "NEVER_STARTS", details: { jobs: names } });
  expect(turns).toBeGreaterThan(40);
});

describe("no job is refused", () => {
  it.each<[string, Fleet, JobFile]>([
    ["that waits for others alone", { began: FULL, now: FULL }, job(16)],
    ["whose hosts are drained", { began: DRAINED, now: DRAINED }, job(16)],
    ["by a fleet that is not there", {}, job(64)],
    ["by a fleet that does not answer", { began: EIGHT }, job(16)],
    ["by a fleet whose ledger this release does not read", { began: EIGHT, now: "else" }, job(16)],
    ["by a fleet that has grown since its run began", { began: EIGHT, now: SIXTEEN }, job(16)],
    ["by a fleet without a host", { began: EMPTY, now: EMPTY }, job(64)],
    ["that other fleets may run", { began: EIGHT, now: EIGHT }, job(16, { fleets: ["us"] })],
    [
      "that takes fewer GPUs in the end",
      { began: EIGHT, now: EIGHT },
      job(1, { gang: { gpus: 64, min: 8 } }),
    ],
  ])("%s", async (_, fleet, file) => {
    const { client, started } = clientOf(fleet);
    await client.submit(file);
    expect(started.length).toBe(1);
  });
});

it("jobs that could run cost one reading for all, and wake no worker", async () => {
  const { client, started, calls } = clientOf({ began: FULL, now: FULL });
  for (let at = 0; at < 200; at += 1) await client.submit(job(1 + (at % 16)));
  expect([started.length, calls]).toEqual([200, { readings: 1, queries: 0 }]);
});
