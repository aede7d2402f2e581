import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, utimesSync, writeFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { withLock } from "../../../workers/server/lock.ts";
import { newWorld } from "./fakes.ts";

function newLock(): string {
  return join(newWorld().folder, "lock");
}

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

test("the lock of a process that is gone is taken over at once", async () => {
  const file = newLock();
  const { pid } = spawnSync("true");
  writeFileSync(file, JSON.stringify({ pid, host: hostname(), nonce: "a" }));
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
    parent.stdin.end();
    await expect.poll(() => stateOf(pid), PATIENTLY).toBe("Z");
    writeFileSync(file, JSON.stringify({ pid, host: hostname(), nonce: "a" }));
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
  { name: "another machine", content: JSON.stringify({ pid: 1, host: "elsewhere", nonce: "a" }) },
  {
    name: "a process id that was used again",
    content: JSON.stringify({ pid: process.pid, host: hostname() }),
  },
  { name: "a writer that died before its first byte", content: "" },
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
  writeFileSync(file, JSON.stringify({ pid: 7, host: "elsewhere", nonce: "a" }));
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
