/** @file Options of all verbs, before and behind every verb; and names that a TAB offers for every verb that takes some. */

import type { Command, Option } from "commander";
import { describe, expect, it, vi } from "vitest";
import { createCommandContext } from "../../cli/command/command-context.ts";
import { typedConnection, verbFirst } from "../../cli/command/verb-first.ts";
import { VERB_GROUPS } from "../../cli/verb-list.ts";
import { run } from "./run.ts";

const context = createCommandContext({
  io: {
    stdout: process.stdout,
    stderr: process.stderr,
    readInput: () => Promise.resolve(""),
    env: {},
    cwd: "/",
    nowMs: () => 0,
    interrupted: new AbortController().signal,
  },
  openSession: () => Promise.reject(new Error("no test connects")),
  commandLine: undefined,
  exitWith: () => undefined,
  endsByItself: () => undefined,
});

interface Verb {
  readonly words: readonly string[];
  readonly command: Command;
}

const withBelow = (command: Command, above: readonly string[] = []): readonly Verb[] => {
  const words = [...above, command.name()];
  return [{ words, command }, ...command.commands.flatMap((below) => withBelow(below, words))];
};
const VERBS = (
  await Promise.all(
    VERB_GROUPS.flatMap(({ verbs }) => verbs).map(async ({ load }) => (await load())(context)),
  )
).flatMap((command) => withBelow(command));

const SHARED_GROUP = "Fleet and connection:";
const sharedOf = ({ options }: Command): readonly Option[] =>
  options.filter(
    ({ helpGroupHeading, long }) => helpGroupHeading === SHARED_GROUP || long === "--json",
  );

const withOptions = VERBS.flatMap(({ words, command }) =>
  sharedOf(command).map(
    (option) => [words.join(" "), option.long ?? "", { words, option }] as const,
  ),
);

it("there are verbs with and without a connection", () => {
  expect(withOptions.length).toBeGreaterThan(500);
});

it("each option of all verbs may begin the line, for every verb that has it", () => {
  const wrong = withOptions.filter(([, flag, { words, option }]) => {
    const given = option.required ? [flag, "x"] : [flag];
    return verbFirst([...given, ...words]).join(" ") !== [...words, ...given].join(" ");
  });
  expect(wrong.map(([verb, flag]) => `${flag} ${verb}`)).toEqual([]);
});

it("each such option means the same in all verbs", () => {
  const forms = new Map<string, Set<boolean>>();
  for (const [, flag, { option }] of withOptions)
    forms.set(flag, (forms.get(flag) ?? new Set()).add(option.required));
  expect([...forms].filter(([, found]) => found.size > 1)).toEqual([]);
});

it.each([
  [
    ["-o", "yaml", "list"],
    ["list", "-o", "yaml"],
  ],
  [
    ["--api", "unix:/a", "exec", "j", "--", "x"],
    ["exec", "j", "--api", "unix:/a", "--", "x"],
  ],
  [
    ["--api=unix:/a", "fleet", "show"],
    ["fleet", "show", "--api=unix:/a"],
  ],
  [["--fleet"], ["--fleet"]],
])("%j is read as %j", (words, want) => {
  expect(verbFirst(words)).toEqual(want);
});

it.each([
  [["--fleet", "eu", "logs", ""], { fleet: "eu" }],
  [["logs", "-f", "--fleet=eu", "--address", "h:1", ""], { fleet: "eu", address: "h:1" }],
  [["logs", "--fleet"], {}],
  [["submit", "--gpus", "1", "--", "x", "--fleet", "eu"], {}],
])("unfinished words %j name %j", (words, want) => {
  expect(typedConnection(words)).toEqual(want);
});

describe("a TAB", () => {
  const ledger = {
    shape: {
      clusters: [{ id: "eu-1", hosts: [{ id: "eu-1/h1", gpuCount: 8, gpuType: "H100" }] }],
      tenants: [{ id: "blue" }],
    },
    hosts: new Map([["eu-1/h1", { isDrained: true, silentSinceMs: 1 }]]),
    requests: new Map(),
    leases: new Map(),
  } as never;
  async function* list({ all }: { readonly all?: boolean } = {}) {
    yield await Promise.resolve({ jobId: "runs", state: "running" } as never);
    if (all === true) yield { jobId: "ended", state: "failed" } as never;
  }
  async function offered(words: readonly string[]): Promise<readonly string[]> {
    const said: string[] = [];
    const log = vi.spyOn(console, "log").mockImplementation((line: string) => void said.push(line));
    const client = { list, fleet: () => Promise.resolve(ledger) };
    await run(["complete", "--", ...words], { client });
    log.mockRestore();
    return said.slice(0, -1).map((line) => line.split("\t")[0] ?? "");
  }
  const named = (pattern: RegExp) =>
    VERBS.filter(({ command }) => pattern.test(command.registeredArguments[0]?.name() ?? ""));

  it.each(named(/^job(\[:rank\])?$/).map(({ words }) => words.join(" ")))(
    "offers %s jobs",
    async (verb) => {
      expect(await offered([...verb.split(" "), ""])).toContain("runs");
    },
  );

  it("offers jobs that have ended to retry", async () => {
    expect(await offered(["retry", ""])).toEqual(["runs", "ended"]);
    expect(await offered(["cancel", ""])).toEqual(["runs"]);
  });

  it.each(named(/^cluster$/).map(({ words }) => words.join(" ")))(
    "offers %s clusters",
    async (verb) => {
      expect(await offered([...verb.split(" "), ""])).toContain("eu-1");
    },
  );

  it.each([
    [
      ["audit", "--job", ""],
      ["runs", "ended"],
    ],
    [["submit", "--after", "e"], ["ended"]],
    [["submit", "--cluster", ""], ["eu-1"]],
    [["list", "--tenant", ""], ["blue"]],
    [["undrain", ""], ["eu-1/h1"]],
    [["drain", ""], []],
    [
      ["--fleet", "eu", "logs", ""],
      ["runs", "ended"],
    ],
    [["--fleet", "eu", "st"], ["status"]],
  ])("%j is completed to %j", async (words, want) => {
    expect(await offered(words)).toEqual(want);
  });
});
