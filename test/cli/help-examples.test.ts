/** @file The examples of every `--help`: a shell reads each line, the command knows its words, and those that need no fleet run. */

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Command } from "commander";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { verbFirst } from "../../cli/command/verb-first.ts";
import { LIGHT_VERBS } from "../../cli/light-verbs.ts";
import { createProgram, splitCommandLine } from "../../cli/program.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { removeFolder } from "../support/remove-folder.ts";
import { everyVerb, idleContext } from "./every-verb.ts";
import { run } from "./run.ts";

const JOB = "name: a\ngang: 1\nrun: { command: [true] }\n";
/** What the examples take for granted. */
const FILES: Readonly<Record<string, string>> = {
  ...Object.fromEntries(
    ["train", "large", "nightly"].map((name) => [`${name}.yaml`, JOB.replace("true", "'true'")]),
  ),
  "steps.yaml":
    "name: a\ngang: 1\nrun: { command: [a] }\n---\nname: b\ngang: 1\nrun: { command: [b] }\n",
  "train.sbatch": "#!/bin/sh\n#SBATCH --gpus=1\ntrue\n",
  "probe.py": "",
  "fleet.yaml":
    "name: f\nclusters:\n  - name: a\n    site: here\n    jurisdiction: EU\n    hosts: [{ name: h, gpus: 8, type: H100 }]\n",
  "t.txt": `${"t".repeat(64)}\n`,
  "c.pem": "",
  "k.pem": "",
};

const EXAMPLES = await everyExample();

/** Each line once, as it stands in the help, with the words of each command that a shell makes of it. */
async function everyExample(): Promise<readonly Example[]> {
  const lines = new Set<string>();
  for (const words of await everyVerb()) {
    const { stdout } = await run([...words, "--help"]);
    const [, examples = ""] = stdout.split("\nExamples:\n");
    const [own = ""] = examples.replaceAll(/ \\\n +/g, " ").split("\n\n");
    for (const [, line = ""] of own.matchAll(/^ {2}\$ (.*)$/gm)) lines.add(line);
  }
  return wordsOf([...lines]);
}

interface Example {
  readonly line: string;
  readonly commands: readonly (readonly string[])[];
}

/** A function in place of the command says which words it got; what it prints is a job's id, and a command. */
function wordsOf(lines: readonly string[]): readonly Example[] {
  const folder = mkdtempSync(path.join(tmpdir(), "orbweaver-examples-"));
  for (const [file, text] of Object.entries(FILES)) writeFileSync(path.join(folder, file), text);
  mkdirSync(path.join(folder, ".config/fish/completions"), { recursive: true });
  const script = [
    `orbweaver() { printf '%s\\0' "$@" 'end of command' >&3; echo true; }`,
    "curl() { :; }",
    ...lines.map((line) => `${line}\nprintf 'end of line\\0' >&3`),
  ].join("\n");
  const { output, status, stderr } = spawnSync("/bin/bash", ["-eu", "-c", script], {
    cwd: folder,
    env: { PATH: "", HOME: folder },
    stdio: ["ignore", "ignore", "pipe", "pipe"],
    encoding: "utf8",
  });
  removeFolder(folder);
  if (status !== 0) throw new Error(`a shell does not read the examples: ${stderr}`);
  const said = output[3]?.split("end of line\0") ?? [];
  return lines.map((line, at) => ({
    line,
    commands: (said[at] ?? "")
      .split("end of command\0")
      .slice(0, -1)
      .map((words) => words.split("\0").slice(0, -1)),
  }));
}

/** The command that the words reach; throws what commander says to words that it does not know. */
async function reached(words: readonly string[]): Promise<string> {
  const { own, commandLine } = splitCommandLine(verbFirst(words));
  const program = await createProgram(idleContext(commandLine), own[0]);
  const names: string[] = [];
  const disarm = (command: Command): void => {
    for (const each of command.commands) disarm(each);
    command.action(() => void names.push(command.name()));
  };
  for (const each of program.commands) disarm(each);
  await program.parseAsync([...own], { from: "user" });
  return names.join();
}

const titled = EXAMPLES.flatMap(({ line, commands }) => commands.map((words) => ({ line, words })));

describe("examples of the help", () => {
  it("are there for each of its commands, and each has words", () => {
    expect(EXAMPLES.length).toBeGreaterThan(250);
    const silent = EXAMPLES.filter(({ commands }) => commands.length === 0);
    expect(silent.map(({ line }) => line)).toEqual([expect.stringMatching(/^curl /)]);
  });

  it.each(titled)("$line: the command knows its words", async ({ words }) => {
    expect(await reached(words)).toMatch(/^[a-z-]+$/);
  });

  it("with a flag or a value that does not exist fail", async () => {
    await expect(reached(["cancel", "a", "--tasks", "3"])).rejects.toThrow(/unknown option/);
    await expect(reached(["list", "--class", "x"])).rejects.toThrow(/invalid/);
    await expect(reached(["explain"])).rejects.toThrow(/missing required argument/);
    await expect(reached(["fleet", "chekc", "a"])).rejects.toThrow();
  });
});

/** They need no fleet and no file but those of the tests; each finds what the one before has left. */
const OFFLINE: readonly string[] = [
  "orbweaver fleet check fleet.yaml",
  "orbweaver init --site lyon --jurisdiction EU eu.yaml",
  "orbweaver keys new keys.txt",
  "orbweaver keys show keys.txt",
  "orbweaver keys rotate keys.txt",
  "orbweaver keys identity",
  "orbweaver plan --model gpt2-1.3b --batch 64 --gpus a:8",
  "orbweaver plan --model llama-70b --batch 256 --gpus eu/h1:8:H100,us/h1:8:H100",
  "orbweaver plan --serve vllm --model llama-3-8b --ttft 500ms --tpot 40ms --gpus a:8:H100",
  "orbweaver serve sample branchy branchy.onnx",
  "orbweaver serve sample transformer blocks.onnx",
];

/** There is no server, no submit service, no history, and no agent of this machine, which would have its folders. */
const WITHOUT_A_FLEET =
  /^error (NO_CONNECTION: |NOT_FOUND: there is no history database|BAD_INPUT: \S+ is looked for in the folder of the job, and it is not known that the hosts have )/m;

/** Beyond its words a verb reads values and files before it asks a server, or instead. */
describe("examples that run", () => {
  let folder: string;
  beforeAll(() => {
    folder = mkdtempSync(path.join(tmpdir(), "orbweaver-examples-"));
    for (const [file, text] of Object.entries(FILES)) writeFileSync(path.join(folder, file), text);
  });
  afterAll(() => {
    removeFolder(folder);
  });
  const outside = (state: string) => ({
    cwd: folder,
    env: { ORBWEAVER_STATE_DIR: path.join(folder, state), HOME: folder },
  });

  it.each(OFFLINE)("%s: it does", async (line) => {
    const [{ commands: [words = []] } = { commands: [] }] = EXAMPLES.filter(
      (each) => each.line === line,
    );
    expect(words).not.toEqual([]);
    const { code, stderr } = await run(words, outside("offline"));
    expect({ code, stderr }).toEqual({ code: 0, stderr: expect.not.stringMatching(/^error /m) });
  });

  const asking = titled.filter(({ words: [verb = ""] }) => LIGHT_VERBS.has(verb));
  it.each(asking)("$line: nothing is wrong with it before it asks a server", async ({ words }) => {
    const { stderr } = await run(words, {
      ...outside("asking"),
      openSession: () => Promise.reject(new OrbweaverError("NO_CONNECTION", "none in a test")),
    });
    expect(stderr).toMatch(WITHOUT_A_FLEET);
  });
});
