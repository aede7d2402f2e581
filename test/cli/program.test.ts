/** @file Every run of the command ends in one manner: one line for an error, its exit status, help with examples. */

import { Writable } from "node:stream";
import { afterEach, describe, expect, it, vi } from "vitest";
import { drained } from "../../cli/terminal/io.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { everyVerb } from "./every-verb.ts";
import { run } from "./run.ts";

/** The words of each command, verbs of verbs included. */
const VERBS = await everyVerb();

/** What they print is somebody else's, or a process goes on until it is ended. */
const WITHOUT_DOCUMENT = new Set([
  ...["run", "attach", "exec"],
  ...["worker", "agent", "supervise", "completion"],
]);

describe("help", () => {
  it("is there for more than a hundred commands", () => {
    expect(VERBS.length).toBeGreaterThan(100);
  });

  it.each(VERBS.map((words) => ({ words, name: words.join(" ") })))(
    "of $name has examples and exit codes, fits 80 columns, and offers JSON and YAML",
    async ({ words, name }) => {
      const { code, stdout, stderr } = await run([...words, "--help"]);
      expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
      expect(stdout).toContain("Examples:");
      expect(stdout).toContain("Exit status:");
      expect(stdout.split("\n").filter((line) => line.length > 80)).toEqual([]);
      const hasJson = /^ +--json/m.test(stdout);
      const isForVerbs = /^Commands:$/m.test(stdout);
      expect(hasJson || isForVerbs || WITHOUT_DOCUMENT.has(name)).toBe(true);
      // The `--output` of `fleet import` names a file.
      if (hasJson) expect(stdout).toMatch(name === "fleet import" ? /--output <file>/ : /"yaml"/);
      expect(stdout.includes("With --json, an error is")).toBe(/^ +--json/m.test(stdout));
    },
  );

  it("of the whole names every verb", async () => {
    const { code, stdout } = await run(["--help"]);
    expect(code).toBe(0);
    for (const [verb = ""] of VERBS) expect(stdout).toMatch(new RegExp(`^  ${verb}\\b`, "m"));
  });

  it("of submit tells the job's own exit codes", async () => {
    const { stdout } = await run(["submit", "--help"]);
    expect(stdout).toContain("128+n");
  });
});

it("prints the version of the package", async () => {
  const { code, stdout } = await run(["--version"]);
  expect(code).toBe(0);
  expect(stdout).toMatch(/^\d+\.\d+\.\d+/);
});

describe("wrong usage", () => {
  it.each([
    [
      "an unknown verb, with the nearest",
      ["statsu"],
      "error BAD_INPUT: unknown command 'statsu' (Did you mean status?)\n",
    ],
    [
      "an unknown flag, with the nearest",
      ["list", "--tennant", "a"],
      "error BAD_INPUT: unknown option '--tennant' (Did you mean --tenant?)\n",
    ],
    ["a missing argument", ["explain"], "error BAD_INPUT: missing required argument 'job'\n"],
    [
      "an argument too many",
      ["explain", "a", "b"],
      "error BAD_INPUT: too many arguments for 'explain'. Expected 1 argument but got 2.\n",
    ],
    [
      "a value that is no choice",
      ["list", "--class", "x"],
      "error BAD_INPUT: option '--class <class>' argument 'x' is invalid. Allowed choices are inference, interactive, training.\n",
    ],
    [
      "a number that is none",
      ["logs", "a", "--tail", "x"],
      'error BAD_INPUT: --tail "x" is not a whole number from 0 on. Write one, e.g. --tail 8.\n',
    ],
    [
      "a command of exec without its dashes",
      ["exec", "train-7:3", "ls", "/tmp"],
      "error BAD_INPUT: a command is missing. Write it after --, as in `orbweaver exec train-7:3 -- ls /tmp`.\n",
    ],
    [
      "a command of exec with an option, without its dashes",
      ["exec", "train-7", "ls", "-q"],
      "error BAD_INPUT: a command is missing. Write it after --, as in `orbweaver exec train-7 -- ls -q`.\n",
    ],
    [
      "an option that exec does not have",
      ["exec", "train-7", "--ptyy", "--", "ls"],
      "error BAD_INPUT: unknown option '--ptyy'\n",
    ],
    [
      "an array of no tasks",
      ["submit", "--gpus", "1", "--array", "9-1", "--", "x"],
      'error BAD_INPUT: --array "9-1" names no tasks below 1000000. Write how many there are, e.g. --array 100, or tasks such as 0-99:5%10.\n',
    ],
    ["a drain without a host", ["drain"], "error BAD_INPUT: missing required argument 'host'\n"],
    [
      "a job from nothing",
      ["submit"],
      "error BAD_INPUT: no job is given. Name a file (or `-`), or write `--gpus 8 -- python train.py`.\n",
    ],
    [
      "a command line without a command",
      ["submit", "--gpus", "1", "--"],
      "error BAD_INPUT: nothing follows `--`. Write the command there, e.g. `-- python train.py`.\n",
    ],
    [
      "a variable without a value",
      ["submit", "-e", "A", "--", "x"],
      'error BAD_INPUT: --env "A" is not KEY=VALUE. Write e.g. --env SEED=1.\n',
    ],
    [
      "a fleet that is no folder's name",
      ["list", "--fleet", "../x"],
      'error BAD_INPUT: the fleet name "../x" is not a plain name. Use letters, digits, dots and dashes, at most 63.\n',
    ],
  ])("%s is one line and ends with 2", async (_name, words, wantError) => {
    expect(await run(words)).toEqual({ code: 2, stdout: "", stderr: wantError });
  });

  it("without any verb shows the help and ends with 2", async () => {
    const { code, stdout, stderr } = await run([]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain("Usage: orbweaver");
  });
});

it("says how to get a connection when there is none, and ends with 4", async () => {
  const { code, stdout, stderr } = await run(["list", "--isolated"], {
    env: { ORBWEAVER_STATE_DIR: "/nonexistent" },
  });
  expect({ code, stdout }).toEqual({ code: 4, stdout: "" });
  expect(stderr).toMatch(/^error NO_CONNECTION: .*`orbweaver up`.*TEMPORAL_ADDRESS/);
});

describe("options of all verbs", () => {
  const client = { listPages: async function* () {} };

  it.each([
    [["--fleet", "default", "list"]],
    [["--fleet=default", "--tls", "--json", "list", "--all"]],
    [["--json", "ls"]],
  ])("%j may begin the line", async (words) => {
    expect(await run(words, { client })).toMatchObject({ code: 0, stderr: "" });
  });

  it.each([
    [["--fleet", "../x", "submit", "--gpus", "1", "--", "x", "--tls"], /fleet name "..\/x"/],
    [["--colour", "list"], /unknown option '--colour'/],
  ])("%j means the same as behind the verb", async (words, wantError) => {
    const { code, stderr } = await run(words);
    expect(code).toBe(2);
    expect(stderr).toMatch(wantError);
  });

  it("every document is to be had as YAML, errors included", async () => {
    const failing = { fleet: () => Promise.reject(new OrbweaverError("NOT_FOUND", "no fleet")) };
    const words = ["fleet", "show", "-o", "yaml"];
    const { code, stdout } = await run(words, { client: failing });
    expect(code).toBe(3);
    expect(stdout).toBe("error:\n  code: NOT_FOUND\n  message: no fleet\n");
  });
});

describe("an error that nobody foresaw", () => {
  const client = {
    fleet: () => Promise.reject(new TypeError("x is undefined")),
  };

  it("is one line, without a stack", async () => {
    const { code, stderr } = await run(["fleet", "show"], { client });
    expect(code).toBe(1);
    expect(stderr).toMatch(/^error INTERNAL: x is undefined .*\n$/);
  });

  it("shows its stack when asked to", async () => {
    const { stderr } = await run(["fleet", "show"], { client, env: { ORBWEAVER_DEBUG: "1" } });
    expect(stderr).toContain("TypeError: x is undefined\n    at ");
  });
});

describe("with --json an error is also the one document on standard output", () => {
  it.each<[string, string[], number, object]>([
    [
      "of wrong usage",
      ["list", "--tennant", "a", "--json"],
      2,
      {
        code: "BAD_INPUT",
        message: "unknown option '--tennant' (Did you mean --tenant?)",
      },
    ],
    [
      "of a redrawn document",
      ["list", "--watch", "--json"],
      2,
      {
        code: "BAD_INPUT",
        message:
          "--watch redraws a table, and other forms are printed once. Leave --watch or the form out.",
      },
    ],
    [
      "of a missing connection",
      ["list", "--json", "--isolated"],
      4,
      { code: "NO_CONNECTION", message: expect.stringContaining("`orbweaver up`") as unknown },
    ],
    [
      "of a bug",
      ["fleet", "show", "--json"],
      1,
      { code: "INTERNAL", message: expect.stringContaining("x is undefined") as unknown },
    ],
  ])("%s", async (name, words, wantCode, error) => {
    const env = { ORBWEAVER_STATE_DIR: "/nonexistent" };
    const client = { fleet: () => Promise.reject(new TypeError("x is undefined")) };
    const { code, stdout, stderr } = await run(words, {
      env,
      ...(name === "of a bug" && { client }),
    });
    expect(code).toBe(wantCode);
    expect(JSON.parse(stdout)).toEqual({ error });
    expect(stderr).toMatch(/^error [A-Z_]+: .*\n$/);
  });

  it("but not of help, and not for words of somebody else's command line", async () => {
    const { code, stdout } = await run(["submit", "--gpus", "0", "--", "x", "--json"]);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect((await run(["list", "--json", "--help"])).stdout).toMatch(/^Usage:/);
  });
});

describe("an answer into a pipe", () => {
  it("is whole before the command ends, however slowly it is read", async () => {
    let taken = 0;
    const slow = new Writable({
      highWaterMark: 16,
      write(chunk: Buffer, _encoding, done) {
        setImmediate(() => {
          taken += chunk.length;
          done();
        });
      },
    });
    for (let part = 0; part < 100; part++) slow.write("x".repeat(4096));
    expect(taken).toBe(0);
    await drained(slow);
    expect(taken).toBe(409_600);
  });

  it("is not waited for when its reader is gone", async () => {
    const gone = new Writable();
    gone.on("error", () => undefined);
    gone.destroy();
    await expect(drained(gone)).resolves.toBeUndefined();
  });
});

describe("completion", () => {
  afterEach(() => vi.restoreAllMocks());

  async function completed(...words: string[]): Promise<readonly string[]> {
    const said: string[] = [];
    vi.spyOn(console, "log").mockImplementation((line: string) => void said.push(line));
    await run(["complete", "--", ...words], { client: { list: listed } });
    return said.slice(0, -1).map((line) => line.split("\t")[0] ?? "");
  }
  async function* listed() {
    for (const jobId of ["train-1", "train-2", "$(reboot)"]) {
      yield await Promise.resolve({ jobId, state: "running" } as never);
    }
  }

  it.each([
    ["verbs", ["st"], ["status"]],
    ["verbs of a verb", ["fleet", "ch"], ["check"]],
    ["flags", ["list", "--sta"], ["--state"]],
    ["values of a flag", ["submit", "--launch", "per-h"], ["per-host"]],
    [
      "job ids, those only that a shell does not expand",
      ["logs", "-f", ""],
      ["train-1", "train-2"],
    ],
  ])("knows %s", async (_name, words, want) => {
    expect(await completed(...words)).toEqual(want);
  });

  it.each(["bash", "zsh", "fish"])("has a script for %s", async (shell) => {
    const said: string[] = [];
    vi.spyOn(console, "log").mockImplementation((line: string) => void said.push(line));
    const { code } = await run(["completion", shell]);
    expect(code).toBe(0);
    expect(said.join("\n")).toContain("orbweaver complete --");
  });

  it("refuses a shell that it does not know", async () => {
    const { code, stderr } = await run(["completion", "tcsh"]);
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_INPUT: .*tcsh.*bash/);
  });
});
