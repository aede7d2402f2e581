/** @file The bundled file of the light verbs answers as the modules do that it was made from. */

import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { loadBundled, type BundledCli } from "../../cli/bundled.ts";
import { LIGHT_VERBS } from "../../cli/light-verbs.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
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
  const [bundled, serving] = (["light.cjs", "serve.cjs"] as const).map((bundle) => {
    const found = loadBundled(bundle, DIST);
    if (found === undefined) throw new Error(`${DIST} has no ${bundle}; run node tools/setup.mjs`);
    return found;
  }) as [BundledCli, BundledCli];

  it.each([...LIGHT_VERBS.keys()])("%s has the help of its source", async (verb) => {
    expect(await said(bundled, [verb, "--help"])).toEqual(await run([verb, "--help"]));
  });

  it("serve has the help of its source, and its errors", async () => {
    for (const words of [["serve", "--help"], ["serve"], ["serve", "--model", "none.onnx"]])
      expect(await said(serving, words)).toEqual(await run(words));
  });

  it("serve looks for its threads beside the files that start them", () => {
    const text = readFileSync(join(DIST, "serve.cjs"), "utf8");
    for (const [starter, thread] of [
      ["lane-port", "lane-thread"],
      ["body-work", "body-thread"],
    ] as const) {
      expect(text).toContain(`"../workers/serving/${starter}.js"`);
      expect(existsSync(join(DIST, `../workers/serving/${thread}.js`))).toBe(true);
    }
  });

  it("serve measures its lanes as threads, and plans with them", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-bundled-"));
    const [model, plan] = [join(folder, "m.onnx"), join(folder, "m.plan")];
    writeFileSync(model, branchySample());
    const words = ["--model", model, "--gpus", "2", "--devices", "cpu", "--write-plan", plan];
    expect(await said(serving, ["serve", ...words])).toMatchObject({ code: 0, stderr: "" });
    expect(existsSync(plan)).toBe(true);
    rmSync(folder, { recursive: true });
  });

  it("ends with one line for an error of ours, and its exit status", async () => {
    const words = ["list", "--isolated", "--address", "no-port"];
    const answer = await said(bundled, words);
    expect(answer).toEqual(await run(words));
    expect(answer.stderr).toContain("error BAD_INPUT");
  });

  it("are not there where nothing was built", () => {
    expect(
      loadBundled("light.cjs", mkdtempSync(join(tmpdir(), "orbweaver-unbuilt-"))),
    ).toBeUndefined();
  });
});
