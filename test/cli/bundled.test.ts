/** @file The bundled files of the command line answer as the modules do that they were made from. */

import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Writable } from "node:stream";
import { describe, expect, it } from "vitest";
import { LIGHT_VERBS, type Bundle } from "../../cli/light-verbs.ts";
import type * as Program from "../../cli/program.ts";
import { VERB_GROUPS } from "../../cli/verb-list.ts";
import { branchySample } from "../../models/onnx/onnx-samples.ts";
import { loadBundled } from "../../workers/bundled.ts";
import { run } from "./run.ts";

type BundledCli = Pick<typeof Program, "runCli">;

const DIST = join(import.meta.dirname, "../../dist/cli");
/** All but the benches, which no bundle has. */
const VERBS = VERB_GROUPS.flatMap(({ verbs }) => verbs.map(({ names: [name] }) => name)).filter(
  (name) => name !== "bench",
);

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
  const loaded = (bundle: Bundle): BundledCli => {
    const found = loadBundled<BundledCli>(join(DIST, bundle));
    if (found === undefined) throw new Error(`${DIST} has no ${bundle}; run node tools/setup.mjs`);
    return found;
  };
  const [bundled, serving, whole] = [loaded("light.cjs"), loaded("serve.cjs"), loaded("whole.cjs")];

  it.each([...LIGHT_VERBS.keys()])("%s has the help of its source", async (verb) => {
    expect(await said(bundled, [verb, "--help"])).toEqual(await run([verb, "--help"]));
  });

  it.each(VERBS)("%s has the help of its source in the whole one, too", async (verb) => {
    expect(await said(whole, [verb, "--help"])).toEqual(await run([verb, "--help"]));
  });

  it("the whole one knows all verbs, those that it does not hold as well", async () => {
    expect(await said(whole, ["--help"])).toEqual(await run(["--help"]));
  });

  it("serve has the help of its source, and its errors", async () => {
    for (const words of [["serve", "--help"], ["serve"], ["serve", "--model", "none.onnx"]])
      expect(await said(serving, words)).toEqual(await run(words));
  });

  it("console has the errors of its source in the whole one", async () => {
    const unreached = ["console", "--isolated", "--address", "no-port"];
    for (const words of [["console", "--port", "x"], unreached])
      expect(await said(whole, words)).toEqual(await run(words));
  });

  it.each(["light.cjs", "serve.cjs", "whole.cjs"])("V8 takes the compiled code of %s", (name) => {
    const script = `
      const vm = require("node:vm"), { readFileSync } = require("node:fs"), { wrap } = require("node:module");
      const file = ${JSON.stringify(join(DIST, name))};
      const options = { filename: file, cachedData: readFileSync(file + ".code") };
      process.stdout.write(String(new vm.Script(wrap(readFileSync(file, "latin1")), options).cachedDataRejected));`;
    const { stdout } = spawnSync(process.execPath, ["-e", script], { encoding: "utf8" });
    expect(stdout).toBe("false");
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

  it("threads of the whole one, and of workers on demand, are where it looks for them", () => {
    const text = readFileSync(join(DIST, "whole.cjs"), "utf8");
    const isThere = (file: string): boolean => existsSync(join(DIST, "..", file));
    expect(text).toContain(`(__dirname,"../workers/workflow-thread.js")`);
    for (const thread of ["workflow-thread.js", "workflow-thread.cjs"])
      expect(isThere(`workers/${thread}`)).toBe(true);
    for (const thread of ["decide-thread", "start-estimator-thread"])
      expect(isThere(`activities/${thread}.cjs`)).toBe(true);
  });

  it("the whole one imports a codec of the user, and says what is wrong with it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-codec-"));
    const codec = join(folder, "codec.mjs");
    const words = ["list", "--isolated", "--address", "127.0.0.1:1", "--codec", codec];
    for (const text of ["export const other = 1;", "throw new Error('no');"]) {
      writeFileSync(codec, text);
      const answer = await said(whole, words);
      expect(answer).toEqual(await run(words));
      expect(answer.stderr).toContain("error BAD_INPUT");
    }
    rmSync(folder, { recursive: true });
  });

  it("ends with one line for an error of ours, and its exit status", async () => {
    const words = ["list", "--isolated", "--address", "no-port"];
    const answer = await said(bundled, words);
    expect(answer).toEqual(await run(words));
    expect(answer.stderr).toContain("error BAD_INPUT");
  });

  it("are not there where nothing was built", () => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-unbuilt-"));
    expect(loadBundled(join(folder, "light.cjs"))).toBeUndefined();
  });
});
