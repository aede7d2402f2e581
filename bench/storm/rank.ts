/**
 * @file One process of a storm's job, and the witness of double leases that lies outside our ledger.
 *
 * For its whole life it binds a loopback port that belongs to its (host, GPU), and an address that belongs to its (job, rank):
 * the kernel gives neither twice and takes both back when the process is gone, however it ends. A process that cannot bind records
 * whom it met. Every line goes into one file, appended whole. Needs nothing but Node; loaded as a program only.
 */

import { appendFileSync, existsSync, mkdirSync, renameSync, writeFileSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { join } from "node:path";

/** What the storm tells each process of a job, as JSON in `STORM_RANK`. */
export interface RankOrder {
  readonly witness: string;
  /** All hosts of the fleet; the place of one gives its ports. */
  readonly hosts: readonly string[];
  readonly gpusPerHost: number;
  readonly port: number;
  /** Number of the job: its part of 127.0.0.0/8. */
  readonly job: number;
  readonly ms: number;
  readonly exitCode: number;
  /** The exit code counts only until some process has made this file. */
  readonly failOnce?: string;
  readonly floodMiB?: number;
  /** Ends by KILL alone. */
  readonly isStubborn?: boolean;
}

type WitnessKind = "start" | "end" | "gpu-taken" | "rank-taken";

export interface WitnessLine {
  readonly kind: WitnessKind;
  readonly atMs: number;
  readonly job: string;
  readonly lease: string;
  readonly host: string;
  readonly gpu: number;
  readonly rank: number;
  readonly worldSize: number;
  /** Of a job array. */
  readonly task?: number;
  readonly pid: number;
  readonly exitCode?: number;
  /** The holder's own description of itself. */
  readonly met?: string;
}

const FLOOD_BLOCK = `${"the quota of the log is full ".repeat(36)}\n`;
const MEET_MS = 1_000;

const order = JSON.parse(word("STORM_RANK")) as RankOrder;
const rank = Number(word("RANK"));
const host = word("ORBWEAVER_HOST");
const gpu = Number(word("CUDA_VISIBLE_DEVICES").split(",")[Number(word("LOCAL_RANK"))]);
const task = process.env["ARRAY_INDEX"];
const me = {
  job: word("ORBWEAVER_JOB_ID"),
  lease: word("ORBWEAVER_LEASE_ID"),
  host,
  gpu,
  rank,
  worldSize: Number(word("WORLD_SIZE")),
  ...(task !== undefined && { task: Number(task) }),
  pid: process.pid,
};
/** Ranks of one task; an address has one byte for tasks and ranks together. */
const RANKS_PER_TASK = 8;

if (order.isStubborn === true) process.on("SIGTERM", () => undefined);
process.on("SIGUSR1", checkpoint);
await take(
  "gpu-taken",
  "127.0.0.1",
  order.port + order.hosts.indexOf(host) * order.gpusPerHost + gpu,
);
// Only Linux answers on all of 127.0.0.0/8; elsewhere starts are judged by their lines alone.
if (process.platform === "linux") {
  const place = 1 + Number(task ?? 0) * RANKS_PER_TASK + rank;
  const address = `127.${1 + (order.job >> 8)}.${order.job & 255}.${place}`;
  await take("rank-taken", address, order.port);
}
say("start");
for (let mib = 0; mib < (order.floodMiB ?? 0); mib += 1) {
  await new Promise((resolve) => process.stdout.write(FLOOD_BLOCK.repeat(1_000), resolve));
}
setTimeout(() => {
  const exitCode = lastCode();
  say("end", { exitCode });
  process.exit(exitCode);
}, order.ms);

function lastCode(): number {
  if (order.failOnce === undefined) return order.exitCode;
  if (existsSync(order.failOnce)) return 0;
  writeFileSync(order.failOnce, String(process.pid));
  return order.exitCode;
}

function checkpoint(): void {
  const dir = join(word("ORBWEAVER_CHECKPOINT_DIR"), word("ORBWEAVER_TOKEN"));
  mkdirSync(dir, { recursive: true });
  const path = join(dir, `step-${Date.now()}-${rank}`);
  writeFileSync(`${path}.tmp`, "work done so far");
  renameSync(`${path}.tmp`, path);
}

/** Binds until the end, or records the present holder. */
async function take(kind: WitnessKind, address: string, port: number): Promise<void> {
  const server = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.end(JSON.stringify({ ...me, witness: order.witness }));
  });
  const code = await new Promise<string | undefined>((resolve) => {
    server.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? "unknown"));
    server.listen({ host: address, port }, () => resolve(undefined));
  });
  if (code !== undefined) say(kind, { met: `${code} ${await meet(address, port)}` });
}

/** What the holder of a port says of itself. */
function meet(address: string, port: number): Promise<string> {
  return new Promise((resolve) => {
    let text = "";
    const socket = createConnection({ host: address, port });
    socket.setTimeout(MEET_MS, () => socket.destroy());
    socket.setEncoding("utf8");
    socket.on("data", (chunk: string) => (text += chunk));
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(text === "" ? "no answer there" : text));
  });
}

function say(kind: WitnessKind, more: Partial<WitnessLine> = {}): void {
  const line: WitnessLine = { kind, atMs: Date.now(), ...me, ...more };
  appendFileSync(order.witness, `${JSON.stringify(line)}\n`);
}

function word(name: string): string {
  const value = process.env[name];
  if (value === undefined) throw new Error(`${name} is not set`);
  return value;
}
