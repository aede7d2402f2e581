/** @file One lock for hosts, workers on demand and caches: held, waited for, and taken over from the dead. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  existsSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import { hostname, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { identityOf, ownIdentity } from "../../../agent/system/process-identity.ts";
import { lockHolder, tryLock, withLock } from "../../../agent/system/process-lock.ts";

function newLock(): string {
  const folder = mkdtempSync(join(tmpdir(), "orbweaver-lock-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return join(folder, "lock");
}

const HERE = { ...ownIdentity(), machine: hostname(), nonce: "a" };
const ELSEWHERE = { ...HERE, machine: "elsewhere" };

/** Takes the lock and lists whom it had to wait for. */
async function waitsFor(file: string): Promise<readonly string[]> {
  const holders: string[] = [];
  await withLock(file, { onWait: (holder) => holders.push(holder) }, () => Promise.resolve());
  return holders;
}

test("work runs one at a time and the lock goes away with the last", async () => {
  const file = newLock();
  let running = 0;
  let most = 0;
  const results = await Promise.all(
    [1, 2, 3, 4].map((n) =>
      withLock(file, { onWait: () => undefined }, async () => {
        running += 1;
        most = Math.max(most, running);
        await new Promise(setImmediate);
        running -= 1;
        return n;
      }),
    ),
  );
  expect(results).toEqual([1, 2, 3, 4]);
  expect(most).toBe(1);
  expect(existsSync(file)).toBe(false);
});

test("the lock goes away when the work fails", async () => {
  const file = newLock();
  const work = withLock(file, { onWait: () => undefined }, () => Promise.reject(new Error("no")));
  await expect(work).rejects.toThrow("no");
  expect(existsSync(file)).toBe(false);
});

test("a lock is held by one process, which is named, until it is released", () => {
  const file = newLock();
  const first = tryLock(file);
  expect(tryLock(file)).toMatchObject({ kind: "held", holder: ownIdentity() });
  expect(lockHolder(file)).toMatchObject({ pid: process.pid, machine: hostname() });
  if (first.kind === "taken") first.lock.release();
  expect(lockHolder(file)).toBeUndefined();
  expect(tryLock(file)).toMatchObject({ kind: "taken" });
});

test("a lock that moves away is free, and its file still names the holder", () => {
  const file = newLock();
  const first = tryLock(file);
  if (first.kind === "taken") first.lock.moveTo(`${file}.old`);
  expect(tryLock(file)).toMatchObject({ kind: "taken" });
  expect(lockHolder(`${file}.old`)).toMatchObject(ownIdentity());
});

test("a holder whose lock was taken over neither releases nor moves the new one", () => {
  const file = newLock();
  const first = tryLock(file);
  writeFileSync(file, JSON.stringify({ ...HERE, nonce: "other" }));
  if (first.kind === "taken") {
    first.lock.release();
    first.lock.moveTo(`${file}.old`);
  }
  expect(lockHolder(file)).toMatchObject({ nonce: "other" });
});

test("a stale lock that another process has just replaced is put back", () => {
  const file = newLock();
  writeFileSync(file, JSON.stringify({ ...HERE, started: "1" }));
  const fresh = { ...HERE, nonce: "fresh" };
  let looks = 0;
  const isStale = (): boolean => {
    looks += 1;
    if (looks === 1) writeFileSync(file, JSON.stringify(fresh));
    return looks === 1;
  };
  expect(tryLock(file, { isStale })).toEqual({ kind: "held", holder: fresh });
  expect(readdirSync(dirname(file))).toEqual(["lock"]);
});

const ENDED = [
  { name: "a process that is gone", holder: () => ({ ...HERE, pid: spawnSync("true").pid }) },
  { name: "an earlier process with our id", holder: () => ({ ...HERE, started: "1" }) },
  {
    name: "a process before the machine's restart",
    holder: () => ({ ...HERE, bootId: "earlier" }),
  },
];

test.each(ENDED)("the lock of $name is taken over at once", async ({ holder }) => {
  const file = newLock();
  writeFileSync(file, JSON.stringify(holder()));
  expect(await waitsFor(file)).toEqual([]);
});

test.runIf(process.platform === "linux")("a zombie holds no lock", async () => {
  const file = newLock();
  // Nobody collects the child: the shell that started it stops itself first, and is only ever killed.
  const script = "exec 3<&0; sh -c 'read go' <&3 & echo $!; kill -STOP $$";
  const parent = spawn("sh", ["-c", script]);
  try {
    const [said] = (await once(parent.stdout, "data")) as [Buffer]; // what a stream of bytes gives
    const pid = Number(said.toString());
    await expect.poll(() => stateOf(parent.pid), PATIENTLY).toBe("T");
    const identity = identityOf(pid);
    parent.stdin.end();
    await expect.poll(() => stateOf(pid), PATIENTLY).toBe("Z");
    writeFileSync(file, JSON.stringify({ ...HERE, ...identity }));
    expect(await waitsFor(file)).toEqual([]);
  } finally {
    parent.kill("SIGKILL");
  }
});

const PATIENTLY = { timeout: 60_000, interval: 20 };

/** One letter, as the kernel has it: Z for a zombie, T for a stopped process. */
function stateOf(pid: number | undefined): string | undefined {
  const status = readFileSync(`/proc/${String(pid)}/stat`, "utf8");
  return status.slice(status.lastIndexOf(")") + 2)[0];
}

const UNTOUCHED = [
  { name: "another machine", content: JSON.stringify(ELSEWHERE) },
  { name: "a machine that crashed before the first byte", content: "" },
];

test.each(UNTOUCHED)(
  "a lock of $name is taken over once nobody touched it for a minute",
  async ({ content }) => {
    const file = newLock();
    writeFileSync(file, content);
    const longAgo = new Date(Date.now() - 61_000);
    utimesSync(file, longAgo, longAgo);
    expect(await waitsFor(file)).toEqual([]);
  },
);

test("a waiter names the holder, on another machine with its name, and goes on when it is gone", async () => {
  const file = newLock();
  writeFileSync(file, JSON.stringify({ ...ELSEWHERE, pid: 7 }));
  const holders: string[] = [];
  await withLock(
    file,
    {
      onWait: (holder) => {
        holders.push(holder);
        const gone = new Date(0);
        utimesSync(file, gone, gone);
      },
    },
    () => Promise.resolve(),
  );
  expect(holders).toEqual(["process 7 on elsewhere"]);
});
