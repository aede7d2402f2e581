/** @file The verbs of encryption: key files are made for their owner alone and never overwritten; the codec server stays at home. */

import { mkdtempSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { readKeys } from "../../../../workers/codec/key-ring.ts";
import { run } from "../../run.ts";

const folder = (): string => mkdtempSync(path.join(tmpdir(), "orbweaver-keys-"));

describe("keys", () => {
  it("new makes a file for its owner alone, and shows the key's id, not the key", async () => {
    const cwd = folder();
    const { code, stdout } = await run(["keys", "new", "k.txt"], { cwd });
    const file = path.join(cwd, "k.txt");
    expect(code).toBe(0);
    expect(statSync(file).mode & 0o777).toBe(0o600);
    expect(stdout).toContain(`${readKeys(file)[0].id}  encrypts`);
    const keyLine = readFileSync(file, "utf8").trimEnd().split("\n").at(-1) ?? "";
    expect(stdout).not.toContain(keyLine);
  });

  it("new never overwrites", async () => {
    const cwd = folder();
    await run(["keys", "new", "k.txt"], { cwd });
    const before = readFileSync(path.join(cwd, "k.txt"), "utf8");
    const { code, stderr } = await run(["keys", "new", "k.txt"], { cwd });
    expect(code).toBe(2);
    expect(stderr).toMatch(/BAD_INPUT.*k\.txt is there already.*keys rotate/);
    expect(readFileSync(path.join(cwd, "k.txt"), "utf8")).toBe(before);
  });

  it("rotate puts a new key first and keeps the others and the comments", async () => {
    const cwd = folder();
    await run(["keys", "new", "k.txt"], { cwd });
    const file = path.join(cwd, "k.txt");
    const [first] = readKeys(file);
    const { stdout } = await run(["keys", "rotate", "k.txt", "--json"], { cwd });
    const [newest, ...rest] = readKeys(file);
    expect(rest).toEqual([first]);
    expect(JSON.parse(stdout)).toEqual({
      file,
      encryptsWith: newest.id,
      decryptsAlso: [first.id],
    });
    expect(readFileSync(file, "utf8")).toMatch(/^# Encryption keys/);
    expect(statSync(file).mode & 0o777).toBe(0o600);
  });

  it.each([["rotate"], ["show"]])("%s of a file that is not there ends with 2", async (verb) => {
    const { code, stderr } = await run(["keys", verb, "none.txt"], { cwd: folder() });
    expect(code).toBe(2);
    expect(stderr).toMatch(/BAD_INPUT.*none\.txt/);
  });
});

describe("codec-server", () => {
  it.each<[string, readonly string[], RegExp]>([
    ["beyond this machine without a token", ["--host", "0.0.0.0"], /--token-file/],
    ["with a certificate without its key", ["--cert", "c.pem"], /--key/],
    ["with an origin that is none", ["--origin", "everywhere"], /--origin "everywhere"/],
    ["with a token file that is not there", ["--token-file", "t"], /cannot be read/],
    ["with keys that are not there", ["--encryption-keys", "t"], /keys new/],
  ])("is refused %s", async (_name, words, want) => {
    const cwd = folder();
    const { code, stderr } = await run(["codec-server", "--port", "0", ...words], {
      cwd,
      env: { ORBWEAVER_STATE_DIR: cwd },
      interrupted: AbortSignal.abort(),
    });
    expect(code).toBe(2);
    expect(stderr).toMatch(want);
  });
});
