/** @file Submitting: refused before anything starts, once per key, the difference shown when a key means two jobs. */

import type { Client } from "@temporalio/client";
import {
  defaultDataConverter,
  WorkflowExecutionAlreadyStartedError,
  type Payload,
} from "@temporalio/common";
import { describe, expect, it } from "vitest";
import { userName } from "../../access/own-identity.ts";
import { OrbweaverClient, type JobFile } from "../../client/index.ts";

interface Started {
  readonly type: string;
  readonly options: { readonly workflowId: string; readonly args: readonly unknown[] } & Record<
    string,
    unknown
  >;
}

type Start = (type: string, options: Started["options"]) => Promise<unknown>;

const { payloadConverter } = defaultDataConverter;
const flipped = (payloads: Payload[]): Promise<Payload[]> =>
  Promise.resolve(
    payloads.map((payload) => ({
      ...payload,
      data: payload.data?.map((byte) => byte ^ 255) ?? null,
    })),
  );

/** Temporal as far as a submit touches it; `taken` is the first event of the workflow that has the id already. */
function temporal(
  taken?: { readonly type: string; readonly args: readonly unknown[] },
  codecs: object[] = [],
) {
  const started: Started[] = [];
  const client = {
    options: {
      namespace: "default",
      loadedDataConverter: { ...defaultDataConverter, payloadCodecs: codecs },
    },
    workflow: {
      start: (type: string, options: Started["options"]) => {
        if (taken !== undefined)
          throw new WorkflowExecutionAlreadyStartedError("", options.workflowId, type);
        started.push({ type, options });
        return Promise.resolve({});
      },
    },
    workflowService: {
      getWorkflowExecutionHistory: async () => {
        let payloads = (taken?.args ?? []).map((value) => payloadConverter.toPayload(value));
        if (codecs.length > 0) payloads = await flipped(payloads);
        const attributes = { workflowType: { name: taken?.type }, input: { payloads } };
        return { history: { events: [{ workflowExecutionStartedEventAttributes: attributes }] } };
      },
    },
  };
  // The fake has what a submit uses of a client and nothing else.
  return { client: client as unknown as Client, started };
}

const JOB: JobFile = { name: "train", gang: 8, run: { command: ["python", "t.py"] } };

describe("a new job", () => {
  it("starts the job workflow with the file as it was written", async () => {
    const { client, started } = temporal();
    const { jobId, isNew } = await new OrbweaverClient(client).submit(JOB);
    expect(isNew).toBe(true);
    expect(jobId).toMatch(/^train-[0-9a-z]{6}$/);
    expect(started).toHaveLength(1);
    expect(started[0]).toMatchObject({
      type: "job",
      options: {
        workflowId: jobId,
        taskQueue: "orbweaver-jobs",
        args: [JOB],
        workflowIdReusePolicy: "REJECT_DUPLICATE",
        staticSummary: "train · training · default · 8 GPUs · python t.py",
      },
    });
    expect(started[0]?.options["typedSearchAttributes"]).toEqual([
      { key: { name: "OrbweaverFleet", type: "KEYWORD" }, value: "default" },
      { key: { name: "OrbweaverClass", type: "KEYWORD" }, value: "training" },
      { key: { name: "OrbweaverTenant", type: "KEYWORD" }, value: "default" },
      { key: { name: "OrbweaverState", type: "KEYWORD" }, value: "pending" },
      { key: { name: "OrbweaverGpus", type: "INT" }, value: 8 },
      { key: { name: "OrbweaverName", type: "KEYWORD" }, value: "train" },
      { key: { name: "OrbweaverUser", type: "KEYWORD" }, value: userName() },
    ]);
  });

  it("is found by its labels, in the order of their keys", async () => {
    const { client, started } = temporal();
    await new OrbweaverClient(client).submit({ ...JOB, labels: { team: "vision", "a/b": "1.0" } });
    expect(started[0]?.options["typedSearchAttributes"]).toContainEqual({
      key: { name: "OrbweaverLabels", type: "KEYWORD_LIST" },
      value: ["a/b=1.0", "team=vision"],
    });
  });

  it("starts without what only lists read where the workers have not registered it", async () => {
    const { client, started } = temporal();
    const { start } = client.workflow as unknown as { start: Start };
    const former: Start = (type, options) => {
      const names = (options["typedSearchAttributes"] as { key: { name: string } }[]).map(
        ({ key }) => key.name,
      );
      const lacking = names.find((name) => name === "OrbweaverName" || name === "OrbweaverUser");
      if (lacking === undefined) return start(type, options);
      const details = `Namespace default has no mapping defined for search attribute ${lacking}`;
      return Promise.reject(
        Object.assign(new Error("3 INVALID_ARGUMENT"), { code: 3, details, metadata: {} }),
      );
    };
    Object.assign(client.workflow, { start: former });
    await new OrbweaverClient(client).submit(JOB);
    expect(started).toHaveLength(1);
    expect(started[0]?.options["typedSearchAttributes"]).toHaveLength(5);
  });

  it("names its fleet only when it is not the default one, and shows that it is held", async () => {
    const { client, started } = temporal();
    await new OrbweaverClient(client, { fleet: "eu" }).submit({ ...JOB, hold: true });
    expect(started[0]?.options.args[1]).toEqual({ fleet: "eu" });
    expect(started[0]?.options["typedSearchAttributes"]).toContainEqual({
      key: { name: "OrbweaverState", type: "KEYWORD" },
      value: "held",
    });
  });

  it("may be the text of a file", async () => {
    const { client, started } = temporal();
    const text = "name: a\ngang: {gpus: 2}\nrun: {command: [x]}\nidempotencyKey: k\n";
    expect(await new OrbweaverClient(client).submit(text)).toEqual({ jobId: "k", isNew: true });
    expect(started[0]?.options.args).toEqual([
      { name: "a", gang: { gpus: 2 }, run: { command: ["x"] }, idempotencyKey: "k" },
    ]);
  });

  it("keeps a long command out of its one line", async () => {
    const { client, started } = temporal();
    await new OrbweaverClient(client).submit({
      ...JOB,
      run: { command: ["sh", "-c", "a\nb ".repeat(200)] },
    });
    const summary = String(started[0]?.options["staticSummary"]);
    expect(Buffer.byteLength(summary)).toBeLessThanOrEqual(400);
    expect(summary).not.toContain("\n");
  });
});

describe("before anything starts", () => {
  it("a bad file is refused with all its problems", async () => {
    const { client, started } = temporal();
    const text = "name: a\ngang: 0\nrun: {comand: [x]}\n";
    await expect(
      new OrbweaverClient(client).submit(text, { file: "j.yaml" }),
    ).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringMatching(/^j\.yaml:2:7 .*\nj\.yaml:3:.*\nj\.yaml:3:/),
    });
    expect(started).toEqual([]);
  });

  it("a key that cannot be an id is refused", async () => {
    const { client, started } = temporal();
    const options = { idempotencyKey: "a b" };
    await expect(new OrbweaverClient(client).submit(JOB, options)).rejects.toMatchObject({
      code: "BAD_INPUT",
    });
    expect(started).toEqual([]);
  });

  it("a request above 8 KiB is refused with its size", async () => {
    const { client, started } = temporal();
    const clusters = Array.from({ length: 1000 }, (_, at) => `cluster-${String(at)}`);
    await expect(
      new OrbweaverClient(client).submit({ ...JOB, constraints: { clusters } }),
    ).rejects.toMatchObject({
      code: "REQUEST_TOO_LARGE",
      details: { maxBytes: 8192 },
    });
    expect(started).toEqual([]);
  });
});

describe("a key that was used before", () => {
  const again = { idempotencyKey: "k" };

  it("is answered with the first job when both mean the same, defaults spelled out or not", async () => {
    const first = { ...JOB, class: "training", gang: { gpus: 8, min: 8 }, idempotencyKey: "k" };
    const { client } = temporal({ type: "job", args: [first] });
    expect(await new OrbweaverClient(client).submit(JOB, again)).toEqual({
      jobId: "k",
      isNew: false,
    });
  });

  it("is read through the payload codec", async () => {
    const { client } = temporal({ type: "job", args: [JOB] }, [
      { encode: flipped, decode: flipped },
    ]);
    expect(await new OrbweaverClient(client).submit(JOB, again)).toEqual({
      jobId: "k",
      isNew: false,
    });
  });

  it.each<[string, { type: string; args: readonly unknown[] }, string]>([
    [
      "another command",
      { type: "job", args: [{ ...JOB, run: { command: ["other"] } }] },
      "run.command: ",
    ],
    ["another size", { type: "job", args: [{ ...JOB, gang: 4 }] }, "gang.gpus: 4 before, 8 now"],
    [
      "another fleet",
      { type: "job", args: [JOB, { fleet: "eu" }] },
      "fleet: eu before, default now",
    ],
    ["a file that cannot be read any more", { type: "job", args: [{}] }, "cannot be read"],
    ["a workflow of another kind", { type: "billing", args: [] }, "another kind"],
  ])("is refused for %s, and the difference is shown", async (_name, taken, wantDifference) => {
    const { client } = temporal(taken);
    await expect(new OrbweaverClient(client).submit(JOB, again)).rejects.toMatchObject({
      code: "IDEMPOTENCY_CONFLICT",
      message: expect.stringContaining(wantDifference),
    });
  });
});
