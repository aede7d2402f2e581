/** @file What the codecs do to payloads: large ones shrink, all are secret when wished, every one comes back, and damage is named. */

import type { Payload, PayloadCodec } from "@temporalio/common";
import { defaultPayloadConverter } from "@temporalio/common";
import fc from "fast-check";
import { chmodSync, mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { deflateSync } from "node:zlib";
import { describe, expect, it } from "vitest";
import {
  COMPRESS_FROM_BYTES,
  compressionCodec,
  MAX_DECOMPRESSED_BYTES,
} from "../../../workers/codec/compression.ts";
import { createConverters } from "../../../workers/codec/converters.ts";
import { encryptionCodec } from "../../../workers/codec/encryption.ts";
import { newKeyLine, openKeyRing } from "../../../workers/codec/key-ring.ts";
import { metadataText } from "../../../workers/codec/payload-bytes.ts";
import { withEncodedFailures } from "../../../workers/workflow-bundle.ts";

const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-codecs-"));
let files = 0;
function keyFile(...lines: readonly string[]): string {
  files += 1;
  const file = path.join(folder, `keys-${String(files)}`);
  writeFileSync(file, `${lines.join("\n")}\n`, { mode: 0o600 });
  return file;
}

const payload = (value: unknown): Payload => defaultPayloadConverter.toPayload(value);
const valueOf = (of: Payload | undefined): unknown =>
  of === undefined ? undefined : defaultPayloadConverter.fromPayload(of);
const encoding = (of: Payload | undefined): string | undefined =>
  of === undefined ? undefined : metadataText(of, "encoding");

async function encode(codecs: readonly PayloadCodec[], payloads: readonly Payload[]) {
  let current = [...payloads];
  for (const codec of codecs) current = await codec.encode(current);
  return current;
}

async function decode(codecs: readonly PayloadCodec[], payloads: readonly Payload[]) {
  let current = [...payloads];
  for (const codec of [...codecs].reverse()) current = await codec.decode(current);
  return current;
}

const codecsOf = (setting: Parameters<typeof createConverters>[0]): readonly PayloadCodec[] =>
  createConverters(setting).client.payloadCodecs ?? [];

describe("whatever is encoded comes back", () => {
  const json = fc.jsonValue().map((value) => [value, "x".repeat(COMPRESS_FROM_BYTES)]);
  const values = fc.array(fc.oneof(fc.jsonValue(), json), { maxLength: 4 });
  it.each([
    ["compression alone", codecsOf({})],
    ["encryption", codecsOf({ keyFile: keyFile(newKeyLine()) })],
  ])("%s", async (_name, codecs) => {
    await fc.assert(
      fc.asyncProperty(values, async (some) => {
        const plain = some.map(payload);
        const back = await decode(codecs, await encode(codecs, plain));
        // JSON has no minus zero.
        expect(back.map(valueOf)).toEqual(plain.map(valueOf));
        expect(back.map(encoding)).toEqual(plain.map(encoding));
      }),
      { numRuns: 60 },
    );
  });
});

describe("compression", () => {
  const codec = compressionCodec("fail");
  const random = () => Uint8Array.from({ length: 40_000 }, () => Math.floor(Math.random() * 256));
  it.each<[string, unknown, string]>([
    ["a small payload stays plain", { a: 1 }, "json/plain"],
    ["one byte below the line stays plain", "x".repeat(COMPRESS_FROM_BYTES - 3), "json/plain"],
    ["from 16 KiB on it is compressed", "x".repeat(COMPRESS_FROM_BYTES - 2), "binary/zlib"],
    ["what does not get smaller stays plain", random(), "binary/plain"],
  ])("%s", async (_name, value, wantEncoding) => {
    expect(encoding((await codec.encode([payload(value)]))[0])).toBe(wantEncoding);
  });

  it("a payload that would grow beyond the bound is refused, and for workflows stays as it came", async () => {
    const bomb = {
      metadata: { encoding: new TextEncoder().encode("binary/zlib") },
      data: deflateSync(Buffer.alloc(MAX_DECOMPRESSED_BYTES + 1)),
    };
    await expect(codec.decode([bomb])).rejects.toMatchObject({
      code: "PAYLOAD_UNREADABLE",
      message: expect.stringContaining("64 MiB"),
    });
    expect(await compressionCodec("pass").decode([bomb])).toEqual([bomb]);
  });

  it("damage is named, and for workflows stays as it came", async () => {
    const [whole] = await codec.encode([payload("y".repeat(50_000))]);
    const torn = { ...whole, data: whole?.data?.subarray(0, 30) ?? null };
    await expect(codec.decode([torn])).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
    expect(await compressionCodec("pass").decode([torn])).toEqual([torn]);
  });
});

describe("encryption", () => {
  const first = newKeyLine();
  const second = newKeyLine();
  const ring = openKeyRing(keyFile(first));
  const codec = encryptionCodec(ring, "fail");

  it("hides data and metadata, differently every time, and names its key", async () => {
    const [one, other] = await codec.encode([payload("secret"), payload("secret")]);
    expect(encoding(one)).toBe("binary/encrypted");
    expect(metadataText(one ?? {}, "encryption-key-id")).toBe(ring.current().id);
    expect(Buffer.from(one?.data ?? []).toString("latin1")).not.toMatch(/secret|json/);
    expect(one?.data).not.toEqual(other?.data);
  });

  it("any changed byte is found out", async () => {
    const [whole] = await codec.encode([payload({ gpus: 8 })]);
    const data = whole?.data ?? new Uint8Array();
    for (const at of [0, 11, 12, data.length - 17, data.length - 1]) {
      const forged = {
        ...whole,
        data: data.map((byte, index) => (index === at ? byte ^ 1 : byte)),
      };
      await expect(codec.decode([forged])).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
      expect(await encryptionCodec(ring, "pass").decode([forged])).toEqual([forged]);
    }
    for (const length of [0, 4, 12, 20, 28]) {
      const short = { ...whole, data: data.subarray(0, length) };
      await expect(codec.decode([short])).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
    }
  });

  it.each<[string, readonly string[] | undefined, RegExp]>([
    ["no keys", undefined, /no keys are configured here.*ORBWEAVER_ENCRYPTION_KEYS/],
    ["other keys", [second], /does not have \(it has [0-9a-f]{12}\)/],
  ])("%s: the error names the key and the remedy, for workflows too", async (_n, lines, want) => {
    const encrypted = await codec.encode([payload(1)]);
    const other = lines === undefined ? undefined : openKeyRing(keyFile(...lines));
    for (const onDamage of ["fail", "pass"] as const) {
      const error = encryptionCodec(other, onDamage).decode(encrypted);
      await expect(error).rejects.toMatchObject({
        code: "ENCRYPTION_KEY_MISSING",
        message: expect.stringMatching(want),
        details: { keyId: ring.current().id },
      });
    }
  });

  it("after a rotation the newest key encrypts and all decrypt", async () => {
    const old = await codec.encode([payload("old")]);
    const rotated = openKeyRing(keyFile(second, first));
    const now = encryptionCodec(rotated, "fail");
    expect((await now.decode(old)).map(valueOf)).toEqual(["old"]);
    const [fresh] = await now.encode([payload("new")]);
    expect(metadataText(fresh ?? {}, "encryption-key-id")).toBe(rotated.ids()[0]);
  });

  it("somebody else's encryption passes", async () => {
    const foreign = { metadata: { encoding: Buffer.from("binary/encrypted") }, data: Buffer.of(1) };
    expect(await codec.decode([foreign])).toEqual([foreign]);
  });
});

describe("a key ring", () => {
  it("looks into its file again for a key that it does not know, and then encrypts with the newest", () => {
    const [former, newer] = [newKeyLine(), newKeyLine()];
    const file = keyFile(former);
    let nowMs = 0;
    const ring = openKeyRing(file, () => nowMs);
    const { id } = openKeyRing(keyFile(newer)).current();
    nowMs = 2_000;
    expect(ring.find(id)).toBeUndefined();
    writeFileSync(file, `${newer}\n`);
    nowMs = 2_500;
    expect(ring.find(id)).toBeUndefined();
    nowMs = 3_001;
    expect(ring.find(id)?.id).toBe(id);
    expect(ring.ids()).toEqual([id, openKeyRing(keyFile(former)).current().id]);
  });

  it("encrypts with a new first key of its file before it has met it", () => {
    const [former, newer] = [newKeyLine(), newKeyLine()];
    const file = keyFile(former);
    const ring = openKeyRing(file);
    expect(ring.current().id).toBe(openKeyRing(keyFile(former)).current().id);
    writeFileSync(file, `${newer}\n${former}\n`);
    utimesSync(file, 2_000, 2_000);
    expect(ring.current().id).toBe(openKeyRing(keyFile(newer)).current().id);
    expect(ring.sinceMs()).toBe(2_000_000);
    rmSync(file);
    expect(ring.current().id).toBe(openKeyRing(keyFile(newer)).current().id);
  });

  it("does not count a file that is written again with the same first key as new", () => {
    const file = keyFile(newKeyLine());
    utimesSync(file, 1_000, 1_000);
    const ring = openKeyRing(file);
    utimesSync(file, 3_000, 3_000);
    ring.current();
    expect(ring.sinceMs()).toBe(1_000_000);
  });

  it.each<[string, string, number, RegExp]>([
    ["open to others", newKeyLine(), 0o644, /mode 0644.*chmod 600/],
    ["that its group may write", newKeyLine(), 0o660, /mode 0660/],
    ["with a short key", "c2hvcnQ=", 0o600, /:1 is not a key.*openssl rand -base64 32/],
    ["without a key", "# none\n\n", 0o600, /has no key.*keys new/],
  ])("refuses a file %s", (_name, text, mode, want) => {
    const file = keyFile(text);
    chmodSync(file, mode);
    expect(() => openKeyRing(file)).toThrow(
      expect.objectContaining({ code: "BAD_INPUT", message: expect.stringMatching(want) }),
    );
  });

  it("never quotes a line that is no key", () => {
    const file = keyFile("almost-a-key-with-a-slip");
    expect(() => openKeyRing(file)).toThrow(
      expect.objectContaining({ message: expect.not.stringContaining("almost") }),
    );
  });

  it("refuses a file that is not there", () => {
    expect(() => openKeyRing(path.join(folder, "none"))).toThrow(
      expect.objectContaining({ code: "BAD_INPUT", message: expect.stringContaining("keys new") }),
    );
  });
});

it("the user's codecs are outermost: they see finished payloads, and those without ours read past them", async () => {
  const seen: (string | undefined)[] = [];
  const spy: PayloadCodec = {
    encode: (payloads) => {
      seen.push(...payloads.map(encoding));
      return Promise.resolve(payloads);
    },
    decode: (payloads) => Promise.resolve(payloads),
  };
  const large = payload("z".repeat(COMPRESS_FROM_BYTES));
  await encode(codecsOf({ userCodecs: [spy] }), [payload(1), large]);
  await encode(codecsOf({ userCodecs: [spy], keyFile: keyFile(newKeyLine()) }), [large]);
  expect(seen).toEqual(["json/plain", "binary/zlib", "binary/encrypted"]);
});

describe("the bundle of a worker that encrypts", () => {
  it("says that failures are encoded", () => {
    const code = 'const FORM = "orbweaver-failures-plain";';
    expect(withEncodedFailures(code)).toBe('const FORM = "orbweaver-failures-encoded";');
  });

  it.each(["", 'x("orbweaver-failures-plain", "orbweaver-failures-plain")'])(
    "is refused when it does not say so once: %j",
    (code) => {
      expect(() => withEncodedFailures(code)).toThrow(/places that say how failures/);
    },
  );
});
