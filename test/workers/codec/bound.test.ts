/** @file Ciphertext that is bound to its workflow: read there and by whoever is told no workflow, and nowhere else; what was encrypted before stays readable. */

import { defaultPayloadConverter, type Payload, type PayloadCodec } from "@temporalio/common";
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { cronScheduleId } from "../../../protocol/cron.ts";
import { flawOf, sealProblem, type SealFlaw } from "../../../protocol/seal.ts";
import { COMPRESS_FROM_BYTES } from "../../../workers/codec/compression.ts";
import { createConverters } from "../../../workers/codec/converters.ts";
import { newKeyLine, openKeyRing } from "../../../workers/codec/key-ring.ts";
import { metadataText } from "../../../workers/codec/payload-bytes.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-bound-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const BOUND = newKeyLine();
const UNBOUND = BOUND.replace("bound:", "");
let files = 0;
function keyFile(...lines: readonly string[]): string {
  const file = join(folder, `keys-${String((files += 1))}`);
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  return file;
}

const of = (workflowId: string) =>
  ({ type: "workflow", namespace: "default", workflowId }) as const;

interface Side {
  readonly encode: (value: unknown, workflowId?: string) => Promise<Payload>;
  readonly decode: (payload: Payload, workflowId?: string) => Promise<Payload>;
}

function sideOf(codecs: readonly PayloadCodec[]): Side {
  const context = (workflowId?: string) => (workflowId === undefined ? undefined : of(workflowId));
  return {
    encode: async (value, workflowId) => {
      let all = [defaultPayloadConverter.toPayload(value)];
      for (const codec of codecs) all = await codec.encode(all, context(workflowId));
      return all[0] ?? {};
    },
    decode: async (payload, workflowId) => {
      let all = [payload];
      for (const codec of [...codecs].reverse()) all = await codec.decode(all, context(workflowId));
      return all[0] ?? {};
    },
  };
}

function sides(...lines: readonly string[]): { readonly client: Side; readonly worker: Side } {
  const { client, worker } = createConverters({ keyFile: keyFile(...lines) });
  return { client: sideOf(client.payloadCodecs ?? []), worker: sideOf(worker.payloadCodecs ?? []) };
}

const valueOf = (payload: Payload): unknown => defaultPayloadConverter.fromPayload(payload);
const LARGE = "x".repeat(2 * COMPRESS_FROM_BYTES);

describe.each([
  ["a small payload", "secret"],
  ["a compressed one", LARGE],
])("%s", (_name, value) => {
  const { client, worker } = sides(BOUND);

  it("is read in its workflow, and by whoever is told none", async () => {
    const payload = await client.encode(value, "train-7");
    expect(metadataText(payload, "encryption-workflow-id")).toBe("train-7");
    const read = await worker.decode(payload, "train-7");
    expect([valueOf(read), flawOf([read])]).toEqual([value, undefined]);
    expect(valueOf(await client.decode(payload))).toBe(value);
  });

  it("that is lifted into another workflow is junk to workers and an error to clients", async () => {
    const payload = await client.encode(value, "train-7");
    const lifted = await worker.decode(payload, "train-8");
    expect([lifted, flawOf([lifted])]).toEqual([payload, "unreadable"]);
    await expect(client.decode(payload, "train-8")).rejects.toMatchObject({
      code: "PAYLOAD_UNREADABLE",
      message: expect.stringContaining("it was made for workflow train-7"),
    });
  });

  it.each([
    ["another workflow's name", { "encryption-workflow-id": Buffer.from("train-8") }],
    ["no name", {}],
  ])("with %s on it is damaged", async (_what, names) => {
    const payload = await client.encode(value, "train-7");
    const { "encryption-workflow-id": _id, ...metadata } = payload.metadata ?? {};
    const forged = { ...payload, metadata: { ...metadata, ...names } };
    expect(flawOf([await worker.decode(forged, "train-8")])).toBe("unreadable");
    await expect(client.decode(forged)).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
  });
});

describe("what was encrypted before", () => {
  it("stays readable in every workflow, and is told from what is bound", async () => {
    const before = await sides(UNBOUND).client.encode("old", "train-7");
    for (const reader of ["train-7", "train-8"]) {
      const read = await sides(BOUND, UNBOUND).worker.decode(before, reader);
      expect([valueOf(read), flawOf([read])]).toEqual(["old", "unbound"]);
    }
  });

  it("has a key of another id, so that a process that cannot bind waits for its release", async () => {
    const [bound, unbound] = [BOUND, UNBOUND].map((line) => openKeyRing(keyFile(line)).current());
    expect(bound?.id).not.toBe(unbound?.id);
    const payload = await sides(BOUND).client.encode(1, "train-7");
    await expect(sides(UNBOUND).worker.decode(payload, "train-7")).rejects.toMatchObject({
      code: "ENCRYPTION_KEY_MISSING",
    });
  });
});

it("what a schedule encrypts is read by the workflow of each of its times, and of no other schedule's", async () => {
  const { client, worker } = sides(BOUND);
  const payload = await client.encode("terms", cronScheduleId("eu", "nightly"));
  const flawAt = async (id: string) => flawOf([await worker.decode(payload, id)]);
  expect(await flawAt("orbweaver-cron-eu-nightly-2031-03-04T03:00:00Z")).toBeUndefined();
  expect(await flawAt("orbweaver-cron-eu-hourly-2031-03-04T03:00:00Z")).toBe("unreadable");
  expect(await flawAt("orbweaver-cron-eu-nightly-2")).toBe("unreadable");
  const job = await client.encode("terms", "train");
  expect(flawOf([await worker.decode(job, "train-2031-03-04T03:00:00Z")])).toBe("unreadable");
});

it("nobody marks a payload as sealed from outside, with keys or without, compressed or not", async () => {
  const mark = { "orbweaver-seal": Buffer.from("bound") };
  const withoutKeys = sideOf(createConverters().worker.payloadCodecs ?? []);
  for (const value of ["x", LARGE]) {
    const compressed = await withoutKeys.encode(value);
    const { metadata } = compressed;
    const forged = { ...compressed, metadata: { ...metadata, ...mark } };
    for (const worker of [sides(BOUND).worker, withoutKeys])
      expect(flawOf([await worker.decode(forged, "train-7")])).toBe("open");
  }
  const inner = defaultPayloadConverter.toPayload(LARGE);
  const marked = { ...inner, metadata: { ...inner.metadata, ...mark } };
  let packed: Payload[] = [marked];
  for (const codec of createConverters().client.payloadCodecs ?? [])
    packed = await codec.encode(packed);
  expect(metadataText(packed[0] ?? {}, "encoding")).toBe("binary/zlib");
  expect(flawOf([await sides(BOUND).worker.decode(packed[0] ?? {}, "train-7")])).toBe("open");
});

it("the worst of several payloads counts; no payload has no flaw", async () => {
  const { client, worker } = sides(BOUND);
  const bound = await worker.decode(await client.encode(1, "a"), "a");
  const unbound = await worker.decode(await client.encode(1), "a");
  const open = defaultPayloadConverter.toPayload(1);
  const lifted = await worker.decode(await client.encode(1, "b"), "a");
  expect(
    [[], [bound], [bound, unbound], [open, unbound], [unbound, lifted, open]].map(flawOf),
  ).toEqual([undefined, undefined, "unbound", "open", "unreadable"]);
});

describe("with keys since 1,000", () => {
  const keys = (isBinding: boolean) => ({ isBinding: () => isBinding, sinceMs: () => 1_000 });
  it.each<[SealFlaw | undefined, Parameters<typeof sealProblem>[2], boolean, boolean]>([
    [undefined, {}, true, true],
    ["open", {}, false, false],
    ["open", { atMs: 1_000, isSigned: true }, false, false],
    ["open", { atMs: 999, isSigned: true }, true, true],
    ["unbound", {}, false, true],
    ["unbound", { isSigned: true }, true, true],
    ["unbound", { atMs: 999 }, true, true],
    ["unreadable", { atMs: 999, isSigned: true }, false, false],
  ])("%s, said by %o, is heard by keys that bind: %s; else: %s", (flaw, saidBy, binding, not) => {
    expect(sealProblem(keys(true), flaw, saidBy) === undefined).toBe(binding);
    expect(sealProblem(keys(false), flaw, saidBy) === undefined).toBe(not);
    expect(sealProblem(undefined, flaw, saidBy)).toBeUndefined();
  });
});

it("a ring says whether its first key binds, and since when it has its file", () => {
  const file = keyFile(BOUND, UNBOUND);
  utimesSync(file, 5, 5);
  const ring = openKeyRing(file);
  expect([ring.isBinding(), ring.sinceMs()]).toEqual([true, 5_000]);
  expect(openKeyRing(keyFile(UNBOUND, BOUND)).isBinding()).toBe(false);
  expect(() => openKeyRing(keyFile("bound:c2hvcnQ="))).toThrow(/:1 is not a key/);
});
