/**
 * @file A throw-away root of this machine: an overlay over `/` in mount and process namespaces of its own.
 *
 * What is installed, written or started in it is gone with it. Its first process reads our pipe, so it ends with this process however that ends,
 * and the kernel ends all others with it. The network is the machine's.
 */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createInterface } from "node:readline";

export interface ThrowawayRoot {
  /** Runs a script of bash in the root; what it prints. Throws with its last lines unless it ends with 0. */
  run(script: string): Promise<string>;
  close(): Promise<void>;
}

/** `$1` is the folder of the overlay; its child `shared` is the same folder inside and outside. */
const FIRST_PROCESS = `
set -e
mkdir -p "$1"/{upper,work,root,shared}
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
cd "$1/root"
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mkdir -p "./$1/shared" old
mount --bind "$1/shared" "./$1/shared"
pivot_root . old
cd /
umount -l /old
echo ready
while read -r _; do :; done
`;
const LAST_LINES = 6;

/** `dir` must lie on a file system that an overlay may write to. Fails with the reason where namespaces or overlays are refused. */
export async function openThrowawayRoot(dir: string): Promise<ThrowawayRoot> {
  const outer = spawn(
    "unshare",
    ["-m", "-p", "-f", "--kill-child", "--propagation", "private", "bash", "-c", FIRST_PROCESS, "root", dir], // prettier-ignore
    { stdio: ["pipe", "pipe", "pipe"] },
  );
  await untilReady(outer);
  const children = await readFile(`/proc/${String(outer.pid)}/task/${String(outer.pid)}/children`);
  const target = children.toString("utf8").trim();
  return {
    run: (script) => runScript(target, script),
    close: async () => {
      if (outer.exitCode !== null || outer.signalCode !== null) return;
      const ended = once(outer, "exit");
      outer.stdin.end();
      await ended;
    },
  };
}

async function untilReady(outer: ChildProcess): Promise<void> {
  const { stdout, stderr } = outer;
  if (stdout === null || stderr === null) throw new Error("no pipes");
  let said = "";
  stderr.on("data", (chunk: Buffer) => {
    said += chunk.toString("utf8");
  });
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: stdout }).once("line", () => {
      resolve();
    });
    outer.once("error", reject);
    outer.once("exit", () => {
      reject(new Error(`no throw-away root: ${said.trim()}`));
    });
  });
}

async function runScript(target: string, script: string): Promise<string> {
  const child = spawn("nsenter", ["-t", target, "-m", "-p", "-r", "-w", "bash", "-s"], {
    stdio: ["pipe", "pipe", "pipe"],
  });
  const out: Buffer[] = [];
  const said: Buffer[] = [];
  child.stdout.on("data", (chunk: Buffer) => out.push(chunk));
  child.stderr.on("data", (chunk: Buffer) => said.push(chunk));
  child.stdin.end(`set -e -o pipefail\n${script}`);
  // The script's end, not that of its pipes: daemons that it starts may hold them.
  const [code] = (await once(child, "exit")) as [number | null];
  await new Promise(setImmediate);
  const text = Buffer.concat(out).toString("utf8");
  if (code === 0) return text;
  const lines = Buffer.concat(said).toString("utf8").trim().split("\n");
  throw new Error(lines.slice(-LAST_LINES).join("; ") || `a script ended with ${String(code)}`);
}
