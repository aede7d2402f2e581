/** @file Where a job without a working folder of its own runs: the submitter's folder, the scratch folder, or nowhere before its user has said more. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ownIdentity } from "../../../agent/system/process-identity.ts";
import {
  folderOfFile,
  sharingOf,
  workingFolder,
  type Sharing,
} from "../../../cli/command/working-folder.ts";
import type { JobFile } from "../../../client/index.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { run } from "../run.ts";

const cwd = mkdtempSync(join(tmpdir(), "orbweaver-cwd-"));
writeFileSync(join(cwd, "train.py"), "");
const SIMULATED =
  "clusters:\n  - { name: a, site: s, jurisdiction: EU, simulated: true, hosts: [{ name: 'h[1-2]', gpus: 8, type: H100 }] }\n";
const REAL = (host: string): string =>
  `clusters:\n  - { name: a, site: s, jurisdiction: EU, hosts: [{ name: ${host}, gpus: 8, type: H100 }] }\n`;

describe("workingFolder", () => {
  const refused = /needs|looked for/;
  it.each<{
    command: string[];
    sharing: Sharing;
    typed: string | undefined | RegExp;
    file?: unknown;
  }>([
    { command: ["./task.sh"], sharing: "all", typed: cwd, file: cwd },
    { command: ["./task.sh"], sharing: "some", typed: cwd, file: cwd },
    { command: ["bin/task"], sharing: "unknown", typed: refused, file: refused },
    { command: ["python", "train.py"], sharing: "all", typed: cwd, file: cwd },
    { command: ["python3.12", "train.py"], sharing: "unknown", typed: refused, file: refused },
    { command: ["python", "other.py"], sharing: "unknown", typed: undefined },
    { command: ["python", "-c", "1"], sharing: "all", typed: cwd, file: undefined },
    { command: ["python", "-c", "1"], sharing: "some", typed: undefined },
    { command: ["/bin/true"], sharing: "unknown", typed: undefined },
    { command: ["echo", "train.py"], sharing: "unknown", typed: undefined },
  ])("$command where $sharing hosts share it", ({ command, sharing, typed, file }) => {
    const found = (isTyped: boolean) => () => workingFolder({ command, isTyped }, sharing, cwd);
    for (const [ask, want] of [
      [found(true), typed],
      [found(false), file],
    ] as const)
      if (want instanceof RegExp) expect(ask).toThrow(want);
      else expect(ask()).toBe(want);
  });

  it("looks for nothing of a job in an image on this machine, as in the example of the documents", () => {
    const [, example = ""] =
      /```yaml\n([^]*?)```/.exec(readFileSync(join("docs", "containers.md"), "utf8")) ?? [];
    expect(example).toContain("command: [python, train.py]");
    const asked = (sharing: Sharing) =>
      folderOfFile(example, { sharing, commandLine: undefined, cwd });
    expect([asked("unknown"), asked("some"), asked("all")]).toEqual([
      undefined,
      undefined,
      undefined,
    ]);
  });

  it.each([
    { text: "run: { command: [./a.sh] }", want: cwd },
    { text: "run: { command: ./a.sh --fast }", want: cwd },
    { text: "run: { command: [./a.sh], workdir: /data }", want: undefined },
    { text: "run: { command: [a] }", want: undefined },
    { text: "run: [", want: undefined },
  ])("of the file $text", ({ text, want }) => {
    expect(folderOfFile(text, { sharing: "all", commandLine: undefined, cwd })).toBe(want);
  });
});

describe("sharingOf", () => {
  function broughtUp(fleetText: string, isAlive = true): Record<string, string> {
    const root = mkdtempSync(join(tmpdir(), "orbweaver-up-"));
    mkdirSync(join(root, "default"));
    const fleetFile = join(root, "fleet.yaml");
    writeFileSync(fleetFile, fleetText);
    const { bootId, pid, started } = ownIdentity();
    const agent = { bootId, pid, started: isAlive ? started : "0", role: "agent", logFile: "x" };
    const server = {
      address: "127.0.0.1:7",
      namespace: "default",
      databaseFile: "x",
      logFile: "x",
    };
    const state = {
      ...{ fleet: "default", fleetFile, workers: [agent] },
      server: { bootId, pid, started, ...server },
    };
    writeFileSync(join(root, "default", "up.json"), JSON.stringify(state));
    return { ORBWEAVER_STATE_DIR: root };
  }
  const sharing = (env: Record<string, string>, flags = {}): Promise<Sharing> =>
    sharingOf(flags, { env, cwd } as never);

  it.each<{ of: string; env: Record<string, string>; flags?: object; want: Sharing }>([
    { of: "a simulated fleet of this machine", env: broughtUp(SIMULATED), want: "all" },
    { of: "this machine alone", env: broughtUp(REAL(hostname())), want: "all" },
    { of: "hosts elsewhere, too", env: broughtUp(REAL("elsewhere-7")), want: "some" },
    { of: "agents that have ended", env: broughtUp(SIMULATED, false), want: "unknown" },
    { of: "no fleet here", env: { ORBWEAVER_STATE_DIR: "/nonexistent" }, want: "unknown" },
    {
      of: "another server",
      env: { ...broughtUp(SIMULATED), TEMPORAL_ADDRESS: "far:7233" },
      want: "unknown",
    },
    {
      of: "another service",
      env: broughtUp(SIMULATED),
      flags: { api: "https://far:8443" },
      want: "unknown",
    },
  ])("$of: $want", async ({ env, flags, want }) => {
    expect(await sharing(env, flags)).toBe(want);
  });

  it("a fleet file that is gone says of no other host that it has the folder", async () => {
    const env = broughtUp(SIMULATED);
    rmSync(join(env["ORBWEAVER_STATE_DIR"] ?? "", "fleet.yaml"));
    expect(await sharing(env)).toBe("some");
  });

  it("submit runs a typed command in this folder, and refuses one that no host is known to have", async () => {
    const files: (JobFile | string)[] = [];
    const client = {
      submit: (file: JobFile | string) => {
        files.push(file);
        return Promise.resolve({ jobId: jobId("b"), isNew: true });
      },
    };
    const words = ["submit", "--array", "1000", "--gpus", "1", "--", "./task.sh"];
    expect((await run(words, { client, cwd, env: broughtUp(SIMULATED) })).code).toBe(0);
    expect(files).toMatchObject([{ run: { command: ["./task.sh"], workdir: cwd } }]);
    const { code, stderr } = await run(words, { client, cwd });
    expect({ code, submitted: files.length }).toEqual({ code: 2, submitted: 1 });
    expect(stderr).toContain("--workdir . (run.workdir) if they have it");
    const told = ["submit", "--workdir", ".", ...words.slice(1)];
    expect((await run(told, { client, cwd })).code).toBe(0);
    expect(files[1]).toMatchObject({ run: { workdir: cwd } });
  });
});
