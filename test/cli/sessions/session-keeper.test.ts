/** @file A job whose command is a session's: both command lines, run as processes beside each other. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { sessionKeeper, type SessionKeeper } from "../../../cli/sessions/session-keeper.ts";

let count = 0;
function keeper(...command: readonly string[]): SessionKeeper {
  const found = sessionKeeper(command, `test-${String(process.pid)}-${String((count += 1))}`);
  onTestFinished(() => rmSync(folderOf(found), { recursive: true, force: true }));
  return found;
}
const folderOf = ({ ofJob }: SessionKeeper): string => ofJob[3] ?? "";

function started([file = "", ...args]: readonly string[], env = process.env): ChildProcess {
  const child = spawn(file, args, { env, stdio: ["pipe", "pipe", "ignore"], detached: true });
  onTestFinished(() => {
    child.kill("SIGKILL");
  });
  return child;
}

async function endOf(child: ChildProcess): Promise<number | null> {
  const [code] = child.exitCode === null ? await once(child, "exit") : [child.exitCode];
  return code as number | null;
}

describe("a kept session", () => {
  it.each([
    { of: "status", command: ["sh", "-c", "exit 7"], want: 7 },
    { of: "success", command: ["true"], want: 0 },
    { of: "a command that there is not", command: ["no-such-command-here"], want: 127 },
    { of: "a signal", command: ["sh", "-c", "kill -9 $$"], want: 137 },
  ])("ends with the command, and the job with it: $of", async ({ command, want }) => {
    const of = keeper(...command);
    const job = started(of.ofJob);
    const session = started(of.ofSession);
    expect(await endOf(session)).toBe(want);
    expect(await endOf(job)).toBe(want);
    expect(existsSync(folderOf(of))).toBe(false);
  });

  it("gives the command its input and takes its output", async () => {
    const of = keeper("cat");
    started(of.ofJob);
    const session = started(of.ofSession);
    session.stdin?.end("hello\n");
    const [text] = (await once(session.stdout ?? session, "data")) as [Buffer];
    expect(String(text)).toBe("hello\n");
    expect(await endOf(session)).toBe(0);
  });

  it("whose processes are killed together ends the job as one that was hung up", async () => {
    const of = keeper("sleep", "60");
    const job = started(of.ofJob);
    const session = started(of.ofSession);
    await expect.poll(() => existsSync(`${folderOf(of)}/pid`), { timeout: 60_000 }).toBe(true);
    process.kill(-(session.pid ?? 0), "SIGKILL");
    expect(await endOf(job)).toBe(129);
  });

  it("passes an interrupt to the command, which may go on", async () => {
    const of = keeper(
      ...["sh", "-c"],
      'trap "heard=yes" INT; echo up; until [ "$heard" ]; do sleep 0.05; done; exit 4',
    );
    const job = started(of.ofJob);
    const session = started(of.ofSession);
    await once(session.stdout ?? session, "data");
    process.kill(-(session.pid ?? 0), "SIGINT");
    expect(await endOf(session)).toBe(4);
    expect(await endOf(job)).toBe(4);
  });

  it("does not take a folder that another has made", async () => {
    const of = keeper("true");
    mkdirSync(folderOf(of));
    expect(await endOf(started(of.ofJob))).toBe(1);
  });

  it("ends when the job is stopped before anybody came, and leaves no folder", async () => {
    const of = keeper("true");
    const job = started(of.ofJob);
    await expect.poll(() => existsSync(folderOf(of)), { timeout: 60_000 }).toBe(true);
    job.kill("SIGTERM");
    expect(await endOf(job)).toBe(143);
    expect(existsSync(folderOf(of))).toBe(false);
  });

  it("leaves no folder either when it is stopped while it makes it", async () => {
    const programs = mkdtempSync(path.join(tmpdir(), "orbweaver-keeper-"));
    onTestFinished(() => rmSync(programs, { recursive: true, force: true }));
    const slow = `#!/bin/sh\n/bin/mkdir "$@" && sleep 0.5\n`;
    writeFileSync(path.join(programs, "mkdir"), slow, { mode: 0o755 });
    const of = keeper("true");
    const env = { ...process.env, PATH: `${programs}:${process.env["PATH"] ?? ""}` };
    const job = started(of.ofJob, env);
    await expect.poll(() => existsSync(folderOf(of))).toBe(true);
    job.kill("SIGTERM");
    expect(await endOf(job)).toBe(143);
    expect(existsSync(folderOf(of))).toBe(false);
  });

  it("meets under a name that nobody can know before", () => {
    expect(folderOf(sessionKeeper(["true"]))).toMatch(/^\/tmp\/\.orbweaver-[0-9a-f]{36}$/);
    expect(sessionKeeper(["true"]).ofJob[3]).not.toBe(sessionKeeper(["true"]).ofJob[3]);
  });
});
