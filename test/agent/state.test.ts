import { spawn } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, describe, expect, it } from "vitest";
import { takeHostLock } from "../../agent/system/host-lock.ts";
import { identityOf, isAlive, ownIdentity } from "../../agent/system/process-identity.ts";
import { removeOldLaunches } from "../../agent/runs/retention.ts";
import { nodeSystem } from "../../agent/system/node-system.ts";
import { createOnce, readFile, replaceFile } from "../../agent/system/state-files.ts";
import { folderName, hostLayout } from "../../agent/system/state-layout.ts";
import { openTokenStore } from "../../agent/folder/token-store.ts";
import { hostId, token } from "../../domain/values/ids.ts";
import { HOST, eventually, folder, orderOf, removeFolders, stateOf, testAgent } from "./fixture.ts";

afterEach(removeFolders);

describe("the lock of a host", () => {
  it("lets one agent in, and names the holder and the remedy to the next", () => {
    const path = join(folder(), "agent.lock");
    const { release } = takeHostLock(path, HOST);
    expect(() => takeHostLock(path, HOST)).toThrow(
      expect.objectContaining({ code: "HOST_ALREADY_SERVED", details: { pid: process.pid } }),
    );
    expect(() => takeHostLock(path, HOST)).toThrow(`kill ${process.pid}`);
    release();
    takeHostLock(path, HOST).release();
    expect(existsSync(path)).toBe(false);
  });

  it.each([
    { name: "of a process that has ended", holder: () => ({ ...ownIdentity(), pid: 2 ** 22 + 1 }) },
    {
      name: "of an earlier process with our id",
      holder: () => ({ ...ownIdentity(), started: "1" }),
    },
    {
      name: "from before the machine was restarted",
      holder: () => ({ ...ownIdentity(), bootId: "earlier" }),
    },
    { name: "that says nothing", holder: () => "" },
  ])("$name is taken over", ({ holder }) => {
    const path = join(folder(), "agent.lock");
    replaceFile(path, holder());
    takeHostLock(path, HOST);
    expect(readFile(path)).toMatchObject(ownIdentity());
    expect(readdirSync(join(path, ".."))).toEqual(["agent.lock"]);
  });
});

describe("the identity of a process", () => {
  it("holds while it runs and ends with it, also while nobody has collected it", async () => {
    const child = spawn("sleep", ["60"]);
    const identity = identityOf(child.pid ?? 0);
    if (identity === undefined) throw new Error("the child is not to be seen");
    expect(isAlive(identity)).toBe(true);
    expect(isAlive({ ...identity, started: "1" })).toBe(false);
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    expect(isAlive(identity)).toBe(false);
  });

  it("of a zombie is that of the dead", async () => {
    // The shell is stopped before its child can end, so nobody collects it.
    const script = "exec 3<&0; sh -c 'read go' <&3 & echo $!; kill -STOP $$";
    const parent = spawn("sh", ["-c", script]);
    const pid = await new Promise<number>((resolve) =>
      parent.stdout.once("data", (text: Buffer) => resolve(Number(text))),
    );
    await eventually(() => parent.pid !== undefined && stateOf(parent.pid).startsWith("T"));
    parent.stdin.end();
    await eventually(() => identityOf(pid) === undefined);
    if (process.platform === "linux") expect(existsSync(`/proc/${pid}`)).toBe(true);
    parent.kill("SIGKILL");
  });
});

describe("the token store", () => {
  const ALL = 0b1111;
  it.each([
    { name: "the same again", seen: [5, 0b1], asked: [5, 0b1], wantRefused: false },
    { name: "a higher one", seen: [5, 0b1], asked: [6, 0b1], wantRefused: false },
    { name: "a lower one on another GPU", seen: [5, 0b1], asked: [4, 0b10], wantRefused: false },
    { name: "a lower one on one of its GPUs", seen: [5, 0b1], asked: [4, 0b11], wantRefused: true },
  ])(
    "answers $name after a restart as it would have before",
    async ({ seen: [high = 0, on = 0], asked: [next = 0, mask = 0], wantRefused }) => {
      const path = join(folder(), "tokens.json");
      expect(
        await openTokenStore(nodeSystem.files, path, 4).admit(token(high), on),
      ).toBeUndefined();
      expect(
        (await openTokenStore(nodeSystem.files, path, 4).admit(token(next), mask)) !== undefined,
      ).toBe(wantRefused);
    },
  );

  it("refuses a revoked token for good, and forgets it when every GPU has seen a higher one", async () => {
    const path = join(folder(), "tokens.json");
    const store = openTokenStore(nodeSystem.files, path, 4);
    await store.revoke(token(7), 0);
    expect(store.refusalOf(token(7), ALL)).toContain("revoked");
    expect(openTokenStore(nodeSystem.files, path, 4).highest()).toBe(7);
    await store.admit(token(8), ALL);
    expect(openTokenStore(nodeSystem.files, path, 4).refusalOf(token(7), 0b1)).toContain("8");
    expect(readFile(path)).toEqual({ seen: [8, 8, 8, 8], revoked: [] });
  });

  it("has written every promise when it is given, however many are asked for at once", async () => {
    const path = join(folder(), "tokens.json");
    const store = openTokenStore(nodeSystem.files, path, 4);
    await Promise.all(
      Array.from({ length: 50 }, async (_, index) => {
        await store.admit(token(index), 1 << (index % 4));
        expect(openTokenStore(nodeSystem.files, path, 4).highest()).toBeGreaterThanOrEqual(index);
      }),
    );
  });

  it.each(["", "{", "null", "{}", '{"seen":[5],"revoked":["7"]}'])(
    "does not start from nothing when its file holds %j: it waits for what the fleet knows",
    async (text) => {
      const path = join(folder(), "tokens.json");
      writeFileSync(path, text);
      const store = openTokenStore(nodeSystem.files, path, 4);
      expect([store.lost, store.isReady()]).toEqual(["broken", false]);
      await store.heal([3, 9, 9, 9]);
      expect(store.isReady()).toBe(true);
      expect(store.refusalOf(token(8), 0b10)).toContain("9");
      expect(store.refusalOf(token(3), 0b1)).toBeUndefined();
      const again = openTokenStore(nodeSystem.files, path, 4);
      expect([again.lost, again.highest()]).toEqual([undefined, 9]);
    },
  );
});

describe("names of folders", () => {
  it("are one plain name each, and different for different ids", () => {
    const id = fc.string({ minLength: 1, maxLength: 300, unit: "grapheme" });
    fc.assert(
      fc.property(id, id, (one, other) => {
        expect(folderName(one)).toMatch(/^[^/\0]{1,200}$/);
        expect(["", ".", ".."]).not.toContain(folderName(one));
        expect(folderName(one) === folderName(other)).toBe(one === other);
      }),
    );
  });

  it("cannot lead out of the state folder", () => {
    const stateDir = folder();
    const { dir } = hostLayout(nodeSystem.files, {
      stateDir,
      fleet: "../../x",
      id: hostId("..", "../y"),
    });
    expect(dir.startsWith(`${stateDir}/`)).toBe(true);
    expect(dir.split("/")).not.toContain("..");
  });
});

describe("files", () => {
  it("are created by one of many", () => {
    const path = join(folder(), "claim.json");
    expect([1, 2, 3].map((value) => createOnce(path, { value }))).toEqual([true, false, false]);
    expect(readFile(path)).toEqual({ value: 1 });
  });
});

describe("old launches", () => {
  it("go by age and by count, the oldest first; what runs stays", async () => {
    const agent = testAgent();
    const order = orderOf("exit 0");
    await agent.runs.run(order);
    const { leases } = agent.host.layout;
    for (const day of [1, 2, 3, 9]) {
      const dir = join(leases, `lease-${100 + day}`);
      mkdirSync(dir);
      writeFileSync(join(dir, "report.json"), "{}");
      const atS = Date.now() / 1_000 - day * 86_400;
      utimesSync(join(dir, "report.json"), atS, atS);
    }
    expect(
      removeOldLaunches(agent.host, { keepMs: 7 * 86_400_000, keepCount: 10 }, Date.now()),
    ).toBe(1);
    expect(
      removeOldLaunches(agent.host, { keepMs: 7 * 86_400_000, keepCount: 2 }, Date.now()),
    ).toBe(2);
    expect(readdirSync(leases).sort()).toEqual(["lease-101", "lease-5"]);
  });

  it("of a job array go by the age of their newest batch", () => {
    const { host } = testAgent();
    const old = Date.now() / 1_000 - 9 * 86_400;
    for (const { name, batchesAtS } of [
      { name: "lease-6", batchesAtS: old },
      { name: "lease-7", batchesAtS: Date.now() / 1_000 },
    ]) {
      const batches = join(host.layout.leases, name, "batches");
      mkdirSync(batches, { recursive: true });
      utimesSync(batches, batchesAtS, batchesAtS);
      utimesSync(dirname(batches), old, old);
    }
    const keep = { keepMs: 7 * 86_400_000, keepCount: 10 };
    expect(removeOldLaunches(host, keep, Date.now())).toBe(1);
    expect(readdirSync(host.layout.leases)).toEqual(["lease-7"]);
  });
});

it("a launch that is being removed, and of which only the order is left, is none of a restarted agent's", () => {
  const { stateDir, host } = testAgent();
  const left = (name: string): void => {
    mkdirSync(join(host.layout.leases, name));
    writeFileSync(
      join(host.layout.leases, name, "order.json"),
      JSON.stringify({ order: orderOf("true") }),
    );
  };
  left(".gone.lease-5.00000000-0000-4000-8000-000000000000");
  expect(testAgent({ stateDir }).host.open.size).toBe(0);
  left("lease-5");
  expect(testAgent({ stateDir }).host.open.size).toBe(1);
});
