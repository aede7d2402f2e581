/**
 * @file Sends one notice to one target: a signed POST, a message of Slack, or a command. Fails with the reason, which has no secret in it.
 *
 * A signature is that of Stripe's form: `t=<seconds>,v1=<HMAC-SHA256 of "<seconds>.<body>" in hex>`.
 */

import { spawn } from "node:child_process";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { withinTime } from "../../client/time-limit.ts";
import type { NoticeTarget } from "../../domain/fleet/notify-schema.ts";
import type { NoticeRow } from "../history/database.ts";
import { hasErrorCode } from "../../lib/error-code.ts";
import { post } from "./post.ts";

export type SendNotice = (target: NoticeTarget, row: NoticeRow, nowMs: number) => Promise<void>;

const COMMAND_PATIENCE_MS = 30_000;

/** `folder`: files are named relative to it. `signal`: ends what is on its way. */
export const createSender =
  (folder: string, signal: AbortSignal): SendNotice =>
  async (target, row, nowMs) => {
    const { webhook, secretFile, slackFile, command } = target;
    if (webhook !== undefined) {
      const secret = secretFile === undefined ? undefined : await wordIn(folder, secretFile);
      const signature = secret === undefined ? {} : signed(secret, row.body, nowMs);
      const headers = { ...noticeHeaders(row), ...signature };
      await post(webhook, row.body, { headers, signal });
    } else if (slackFile !== undefined) {
      await post(await wordIn(folder, slackFile), slackBody(row.body), { signal });
    } else if (command !== undefined) await run(command, row.body, { cwd: folder, signal });
  };

/** By which a receiver knows a notice that comes twice. */
export function noticeHeaders({ id, body }: NoticeRow): Record<string, string> {
  const { key } = JSON.parse(body) as { readonly key?: string };
  return { "x-orbweaver-notice": id, ...(key !== undefined && { "idempotency-key": key }) };
}

/** A file that holds one secret. */
export async function wordIn(folder: string, file: string): Promise<string> {
  let text: string;
  try {
    text = (await readFile(resolve(folder, file), "utf8")).trim();
  } catch (error) {
    const code = error instanceof Error && "code" in error ? String(error.code) : String(error);
    throw new Error(`${file} cannot be read (${code})`, { cause: error });
  }
  if (text === "") throw new Error(`${file} is empty`);
  return text;
}

export const signed = (secret: string, body: string, nowMs: number): Record<string, string> => {
  const seconds = Math.floor(nowMs / 1_000);
  const sum = createHmac("sha256", secret).update(`${seconds}.${body}`).digest("hex");
  return { "x-orbweaver-signature": `t=${seconds},v1=${sum}` };
};

const MARKS: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };

/** Slack takes `<…>` for links and mentions of people, so words of submitters are escaped. */
export function slackBody(body: string): string {
  const { fleet, text } = JSON.parse(body) as { readonly fleet: string; readonly text: string };
  const line = `${fleet}: ${text}`.replace(/[&<>]/g, (mark) => MARKS[mark] ?? "");
  return JSON.stringify({ text: line });
}

/** Ends the command and all that it has started when its time is over, or the console's. */
async function run(
  command: readonly string[],
  body: string,
  { cwd, signal }: { readonly cwd: string; readonly signal: AbortSignal },
): Promise<void> {
  const [program = "", ...args] = command;
  const child = spawn(program, args, { cwd, stdio: ["pipe", "ignore", "ignore"], detached: true });
  const ending = withinTime(COMMAND_PATIENCE_MS, signal);
  const kill = (): void => {
    if (child.pid !== undefined) killGroup(child.pid);
  };
  ending.addEventListener("abort", kill);
  // A command that reads nothing is none that failed.
  child.stdin.on("error", () => undefined);
  child.stdin.end(body);
  try {
    const [code, by] = (await once(child, "exit")) as [number | null, string | null];
    if (code === 0) return;
    throw new Error(code === null ? `it ended by ${by ?? "a signal"}` : `it ended with ${code}`);
  } finally {
    ending.removeEventListener("abort", kill);
  }
}

function killGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch (error) {
    // It has ended by itself.
    if (!hasErrorCode(error, "ESRCH")) throw error;
  }
}
