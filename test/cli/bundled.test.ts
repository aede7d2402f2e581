/** @file The bundled file of the light verbs answers as the modules do that it was made from. */

import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { loadBundled, type BundledCli } from "../../cli/bundled.ts";
import { LIGHT_VERBS } from "../../cli/light-verbs.ts";
import { run } from "./run.ts";

const DIST = join(import.meta.dirname, "../../dist/cli");

async function said(bundled: BundledCli, words: readonly string[]) {
  let stdout = "";
  let stderr = "";
  const into = (take: (text: string) => void): Writable =>
    new Writable({
      write: (chunk, _encoding, done) => {
        take(String(chunk));
        done();
      },
    });
  const code = await bundled.runCli(words, {
    io: {
      stdout: into((text) => (stdout += text)),
      stderr: into((text) => (stderr += text)),
      readInput: () => Promise.resolve(""),
      env: { HOME: "/nonexistent" },
      cwd: process.cwd(),
      nowMs: () => 0,
      interrupted: new AbortController().signal,
    },
  });
  return { code, stdout, stderr };
}

describe("the bundled verbs", () => {
  const bundled = loadBundled(DIST);
  if (bundled === undefined) throw new Error(`${DIST} has no bundle; run node tools/setup.mjs`);

  it.each([...LIGHT_VERBS.keys()])("%s has the help of its source", async (verb) => {
    expect(await said(bundled, [verb, "--help"])).toEqual(await run([verb, "--help"]));
  });

  it("ends with one line for an error of ours, and its exit status", async () => {
    const words = ["list", "--isolated", "--address", "no-port"];
    const answer = await said(bundled, words);
    expect(answer).toEqual(await run(words));
    expect(answer.stderr).toContain("error BAD_INPUT");
  });

  it("are not there where nothing was built", () => {
    expect(loadBundled(mkdtempSync(join(tmpdir(), "orbweaver-unbuilt-")))).toBeUndefined();
  });
});
