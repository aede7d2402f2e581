/**
 * @file Runs a program as another user of this machine, which only root can.
 *
 * 65534 is `nobody` on Linux; a uid needs no name to own processes and sockets.
 */

import { spawn } from "node:child_process";

export const NOBODY = 65_534;
export const isRoot = process.getuid?.() === 0;

export interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs `node -e script`, or a program, and resolves with what it printed. */
export async function asUser(
  uid: number,
  [program = "", ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Ended> {
  const child = spawn(program, args, {
    uid,
    gid: uid,
    cwd: "/",
    env: { PATH: process.env["PATH"] ?? "", HOME: "/nonexistent", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let [stdout, stderr] = ["", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += text));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  return await new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code) => resolve({ code, stdout, stderr }));
  });
}

/** The status of an HTTP request that another user sends. */
export async function statusAs(uid: number, url: string, init: object = {}): Promise<number> {
  const script = `fetch(${JSON.stringify(url)}, ${JSON.stringify(init)}).then((a) => console.log(a.status))`;
  const { stdout, stderr } = await asUser(uid, [process.execPath, "-e", script]);
  if (stdout === "") throw new Error(`no answer: ${stderr}`);
  return Number(stdout);
}
