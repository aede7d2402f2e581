/** @file A support bundle has what helps, and no secret in any form. */

import fc from "fast-check";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { writeBundle } from "../../cli/support/bundle.ts";
import { secretValues, withoutSecrets } from "../../cli/support/redact.ts";

const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-bundle-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("text without secrets", () => {
  it.each([
    [
      "a private key",
      "before\n-----BEGIN PRIVATE KEY-----\nMC4CAQAw\n-----END PRIVATE KEY-----\nafter",
      "MC4CAQAw",
    ],
    ["a key that is cut off", "-----BEGIN EC PRIVATE KEY-----\nMC4CAQAw", "MC4CAQAw"],
    ["a token in a header", 'Authorization: Bearer abc.def-ghi"', "abc.def-ghi"],
    ["a JSON Web Token", "refused eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln", "eyJzdWIiOiJhIn0"],
    ["a password in an address", "postgres://ada:hunter22@db/x", "hunter22"],
    ["a query", "GET https://s3.example/a?X-Amz-Signature=deadbeef 403", "deadbeef"],
    ["a fragment", "http://127.0.0.1:8082/#token=opensesame", "opensesame"],
    ["a webhook", "https://hooks.slack.com/services/T0/B0/XyZ", "T0/B0/XyZ"],
    ["a setting", "WANDB_API_KEY=0123456789", "0123456789"],
    ["a field", '{"clientSecret": "shh, quiet"}', "quiet"],
    ["a flag", "orbweaver x --token-value verysecret next", "verysecret"],
    ["a bare key", "loaded Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6MTIz= ok", "Zm9vYmFy"],
  ])("has not %s", (_what, text, secret) => {
    expect(withoutSecrets(text)).not.toContain(secret);
  });

  it.each([
    "fleet: 3 hosts of cluster eu-2 are silent for 90s",
    "TopologyPlacementFailed job-7 needs 16 GPUs in one NVLink domain; the largest free one has 8 (eu-2/host-14).",
    "at Service.rpcCall node_modules/protobufjs/src/rpc/service.js:107:21",
    "run 0191c6f2-7d5e-7c3a-9c1e-5b1f6f0a2b3c, sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
  ])("keeps what helps: %s", (text) => {
    expect(withoutSecrets(text)).toBe(text);
  });

  it("has no known value, wherever it stands", () => {
    const secret = fc
      .stringMatching(/^[A-Za-z0-9]{6,40}$/)
      .filter((text) => !"[removed]".includes(text));
    fc.assert(
      fc.property(fc.string(), secret, fc.string(), (before, value, after) => {
        const text = `${before}${value}${after} and ${value}`;
        expect(withoutSecrets(text, [value])).not.toContain(value);
      }),
    );
  });

  it("knows secret variables by their names", () => {
    const env = {
      HF_TOKEN: "hf-value",
      MY_PASSWORD: "pw-value",
      PATH: "/bin",
      AWS_SECRET_ACCESS_KEY: "aws",
    };
    expect(secretValues(env)).toEqual(["hf-value", "pw-value", "aws"]);
  });
});

describe("a support bundle", () => {
  it("is a new private folder with redacted texts and the ends of logs", () => {
    const log = path.join(folder, "fleet.log");
    writeFileSync(
      log,
      `${"a line\n".repeat(100_000)}started with HF_TOKEN hf-value-123\nthe last line\n`,
    );
    const into = path.join(folder, "bundle");
    const files = writeBundle({
      folder: into,
      texts: new Map([["doctor.json", '{"password": "hunter22"}']]),
      logs: new Map([
        ["fleet.log", log],
        ["gone.log", path.join(folder, "none.log")],
      ]),
      secrets: ["hf-value-123"],
    });
    expect(files).toEqual(["doctor.json", "logs/fleet.log"]);
    expect(statSync(into).mode & 0o077).toBe(0);
    const written = readFileSync(path.join(into, "logs/fleet.log"), "utf8");
    expect(written).toContain("the last line");
    expect(written.length).toBeLessThan(300_000);
    for (const file of files)
      expect(readFileSync(path.join(into, file), "utf8")).not.toMatch(/hunter22|hf-value-123/);
  });

  it("writes over nothing", () => {
    const taken = path.join(folder, "taken");
    mkdirSync(taken);
    expect(() =>
      writeBundle({ folder: taken, texts: new Map(), logs: new Map(), secrets: [] }),
    ).toThrow(/is there already/);
    expect(readdirSync(taken)).toEqual([]);
    const link = path.join(folder, "link");
    symlinkSync(path.join(folder, "elsewhere"), link);
    expect(() =>
      writeBundle({ folder: link, texts: new Map([["a", "b"]]), logs: new Map(), secrets: [] }),
    ).toThrow(/is there already/);
    expect(existsSync(path.join(folder, "elsewhere"))).toBe(false);
  });
});
