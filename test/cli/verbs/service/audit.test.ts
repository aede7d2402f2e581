/** `orbweaver audit`, and how verbs find a submit service. */

import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WorkflowNotFoundError } from "@temporalio/common";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openAuditLog } from "../../../../access/audit-log.ts";
import { configuredService } from "../../../../cli/command/service-session.ts";
import { run } from "../../run.ts";

const NOW_MS = Date.now();
let root = "";
let file = "";
beforeAll(() => {
  root = mkdtempSync(join(tmpdir(), "orbweaver-audit-verb-"));
  mkdirSync(join(root, "default"));
  file = join(root, "default", "audit.jsonl");
  let nowMs = NOW_MS - 7_200_000;
  const log = openAuditLog(file, () => nowMs);
  log.add({ who: "ada", from: "socket", act: "submit", job: "train-7", verdict: "accepted" });
  nowMs = NOW_MS - 60_000;
  log.add({
    who: "eve",
    from: "socket",
    act: "cancel",
    job: "train-7",
    verdict: "refused",
    why: "no",
  });
  log.close();
});
afterAll(() => rmSync(root, { recursive: true, force: true }));

const audit = async (...words: readonly string[]): ReturnType<typeof run> =>
  await run(["audit", ...words], { env: { ORBWEAVER_STATE_DIR: root }, nowMs: NOW_MS });

describe("the audit", () => {
  it.each([
    [[], ["ada", "eve"]],
    [["--user", "eve"], ["eve"]],
    [["--since", "1h"], ["eve"]],
    [["--limit", "1"], ["eve"]],
    [["--user", "eve", "--job", "other"], []],
  ])("with %j shows the lines of %j", async (words, want) => {
    const { code, stdout } = await audit(...words, "--json");
    expect(code).toBe(0);
    const { lines } = JSON.parse(stdout) as { readonly lines: readonly { readonly who: string }[] };
    expect(lines.map(({ who }) => who)).toEqual(want);
  });

  it("says who was refused and why, and the hash to keep", async () => {
    const { stdout, stderr } = await audit();
    expect(stdout).toMatch(/eve .*cancel .*train-7 .*refused .*no/);
    expect(stderr).toMatch(/2 lines, last hash \S{43}/);
  });

  it("cuts no name where a program reads it, and fits a terminal", async () => {
    const long = openAuditLog(file, () => NOW_MS - 60_000);
    const job = `nightly-evaluation-of-the-large-model-${"x".repeat(40)}`;
    long.add({ who: "eve", from: "socket", act: "cron-submit", job, verdict: "accepted" });
    long.close();
    expect((await audit()).stdout).toContain(`cron-submit  ${job}  accepted`);
    const env = { ORBWEAVER_STATE_DIR: root };
    const shown = await run(["audit"], { env, nowMs: NOW_MS, isTerminal: true, columns: 80 });
    expect(shown.stdout).toContain("cron-submit");
    for (const line of shown.stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
  });

  it("shows what workers here have refused, also without a service and a server", async () => {
    const row = { sender: "mallory", times: 3, order: "tellFleet", why: "no", atMs: NOW_MS };
    mkdirSync(join(root, "attacked", "refused"), { recursive: true });
    writeFileSync(join(root, "attacked", "refused", "orbweaver-jobs.json"), JSON.stringify([row]));
    const { code, stdout } = await audit("--fleet", "attacked", "--json");
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({
      lines: [],
      words: [{ sender: "mallory", what: "tellFleet", to: "orbweaver-jobs" }],
    });
  });

  it("says on a narrow terminal whole what was refused and why, in no line that a sender has written", async () => {
    const order = "stopTasks of nightly-evaluation-of-the-large-model-7";
    const why = `the fleet has signed no ticket for it, and ${"x".repeat(90)} is none`;
    const sender = "mallory\n2026-01-01 00:00:00 UTC  1  alice";
    const rows = [{ sender, times: 3, order, why, atMs: NOW_MS }];
    mkdirSync(join(root, "narrow", "refused"), { recursive: true });
    writeFileSync(join(root, "narrow", "refused", "orbweaver-jobs.json"), JSON.stringify(rows));
    const outside = { env: { ORBWEAVER_STATE_DIR: root }, nowMs: NOW_MS };
    const on = { ...outside, isTerminal: true, columns: 80 };
    const { stdout } = await run(["audit", "--fleet", "narrow"], on);
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThanOrEqual(80);
    expect(stdout).not.toMatch(/^\s*2026-01-01/m);
    expect(stdout.replaceAll(/\s+/g, "")).toContain(`${order}: ${why}`.replaceAll(" ", ""));
    const piped = await run(["audit", "--fleet", "narrow"], outside);
    expect(piped.stdout).toContain(
      `3  ${sender.replace("\n", "\\n")}  orbweaver-jobs  ${order}: ${why}`,
    );
  });

  it("ends with 1 where a line was changed", async () => {
    const text = readFileSync(file, "utf8");
    writeFileSync(file, text.replace("train-7", "train-8"));
    try {
      const { code, stderr } = await audit();
      expect(code).toBe(1);
      expect(stderr).toContain("broken at line 1");
    } finally {
      writeFileSync(file, text);
    }
  });

  it("shows what it knows of a job that Temporal has dropped, and refuses a name that neither knows", async () => {
    const gone = (workflowId: string): Promise<never> =>
      Promise.reject(new WorkflowNotFoundError("not found", workflowId, undefined));
    const temporal = {
      withDeadline: (_atMs: number, call: () => unknown) => call(),
      workflow: { getHandle: (job: string) => ({ fetchHistory: () => gone(job) }) },
    };
    const about = async (job: string): ReturnType<typeof run> =>
      await run(["audit", "--job", job], {
        ...{ env: { ORBWEAVER_STATE_DIR: root }, nowMs: NOW_MS, client: {}, temporal },
      });
    const dropped = await about("train-7");
    expect(dropped.code).toBe(0);
    expect(dropped.stdout).toMatch(/ada .*submit .*train-7/);
    expect(dropped.stderr).toContain("what reached the job otherwise is not known");
    const unknown = await about("nope");
    expect(unknown.code).toBe(3);
    expect(unknown.stderr).toMatch(/NOT_FOUND: no line of the audit is about job nope/);
  });

  it("that there is not is told with the remedy", async () => {
    const { code, stderr } = await audit("--fleet", "other");
    expect(code).toBe(3);
    expect(stderr).toContain("orbweaver api");
  });
});

describe("the address of a submit service", () => {
  const at = (env: Record<string, string>, api?: string): unknown =>
    configuredService(api === undefined ? {} : { api }, { env, cwd: root });
  it("is that of the flag, else of the environment", () => {
    expect(at({})).toBeUndefined();
    expect(at({ ORBWEAVER_API: "unix:/x/s.sock" })).toEqual({ socket: "/x/s.sock" });
    expect(at({ ORBWEAVER_API: "unix:/x/s.sock" }, "unix:own.sock")).toEqual({
      socket: join(root, "own.sock"),
    });
    const env = { ORBWEAVER_API: "https://fleet.example:8443", ORBWEAVER_API_TOKEN: "t" };
    expect(at(env)).toEqual({ url: new URL("https://fleet.example:8443"), token: "t" });
  });

  it("of a folder is the caller's own socket in it", () => {
    expect(at({ ORBWEAVER_API: `unix:${root}` })).toEqual({
      socket: expect.stringMatching(/\/[^/]+\.sock$/) as unknown,
    });
  });

  it.each(["fleet.example:8443", "ftp://x", "unix"])("%s is none", (text) => {
    expect(() => at({ ORBWEAVER_API: text })).toThrow("https://HOST:PORT or unix:PATH");
  });
});
