/** @file How long hosts rest whose prologue fails and which are not set aside, and when a disk has room again. */
import { expect, it, vi } from "vitest";
import { createDiskCheck } from "../../../agent/health/disk-check.ts";
import { openRests, RESTS, type RestPorts } from "../../../agent/health/rests.ts";
import { hostId, type HostId } from "../../../domain/values/ids.ts";

const HOST = hostId("eu-1", "a");
const OTHER = hostId("eu-1", "b");

/** A fleet that hears drains, and ends of them from the `deaf`-th on; a pause moves the clock. */
function fleetOf(deaf = 0) {
  const drains = new Map<HostId, string>();
  const pauses: number[] = [];
  let nowMs = 0;
  let ends = 0;
  const ports: RestPorts = {
    clock: {
      nowMs: () => nowMs,
      pause: (forMs) => {
        pauses.push(forMs);
        nowMs += forMs;
        return Promise.resolve();
      },
    },
    closing: new AbortController().signal,
    onNote: () => undefined,
    isRefusal: (error) => String(error).includes("drained already"),
    drain: (host, reason) => {
      if (drains.has(host)) return Promise.reject(new Error("drained already"));
      drains.set(host, reason);
      return Promise.resolve();
    },
    undrain: (hosts, of) => {
      ends += 1;
      if (ends <= deaf) return Promise.reject(new Error("no answer"));
      for (const host of hosts) if (drains.get(host)?.startsWith(of) === true) drains.delete(host);
      return Promise.resolve();
    },
  };
  return { drains, pauses, ports };
}

it("a host rests a minute, then twice as long each time, an hour at most, until its prologue passes", async () => {
  const { drains, pauses, ports } = fleetOf();
  const rests = openRests(ports);
  for (let time = 0; time < 8; time += 1) await rests.begin(HOST, "no fan");
  expect(pauses.map((ms) => ms / 60_000)).toEqual([1, 2, 4, 8, 16, 32, 60, 60]);
  rests.passed(HOST);
  pauses.length = 0;
  const resting = rests.begin(HOST, "no fan");
  expect(drains.get(HOST)).toMatch(/^rests until 1970-01-01T\d\d:\d\d:\d\dZ: no fan$/);
  await Promise.all([rests.begin(HOST, "again"), resting]);
  expect(pauses).toEqual([60_000]);
  expect(drains.size).toBe(0);
});

it("a host that somebody has drained has no rest, and the end of a rest is told until it is heard", async () => {
  const { drains, pauses, ports } = fleetOf(2);
  drains.set(OTHER, "new fans");
  const rests = openRests(ports);
  await rests.begin(HOST, "no fan");
  expect(pauses).toEqual([60_000, 5_000, 5_000]);
  await rests.begin(OTHER, "no fan");
  expect([...drains]).toEqual([[OTHER, "new fans"]]);
  drains.set(HOST, `${RESTS}noon: of a former agent`);
  await rests.endOld([HOST, OTHER]);
  expect([...drains]).toEqual([[OTHER, "new fans"]]);
});

it("a rest whose drain the fleet did not hear is asked for again, three times in all", async () => {
  for (const [deaf, rested] of [
    [2, true],
    [3, false],
  ] as const) {
    const { drains, pauses, ports } = fleetOf();
    let asked = 0;
    const rests = openRests({
      ...ports,
      drain: (host, reason) =>
        (asked += 1) <= deaf
          ? Promise.reject(new Error("the run has ended"))
          : ports.drain(host, reason),
      undrain: (hosts, of) => {
        expect(drains.has(HOST)).toBe(rested);
        return ports.undrain(hosts, of);
      },
    });
    await rests.begin(HOST, "no fan");
    expect([asked, pauses]).toEqual([3, [5_000, 5_000, 60_000]]);
  }
});

it("a rest whose drain was carried out and not answered ends, too", async () => {
  const { drains, ports } = fleetOf();
  const rests = openRests({
    ...ports,
    drain: async (host, reason) => {
      await ports.drain(host, reason);
      throw new Error("deadline exceeded");
    },
  });
  const resting = rests.begin(HOST, "no fan");
  expect(drains.size).toBe(1);
  await resting;
  expect(drains.size).toBe(0);
});

it("a host that an operator has returned, and whose prologue fails again, rests anew until the later end", async () => {
  const { drains, pauses, ports } = fleetOf();
  const pass: (() => void)[] = [];
  const pause = (forMs: number, signal?: AbortSignal): Promise<void> =>
    new Promise((resolve) => {
      pauses.push(forMs);
      pass.push(resolve);
      signal?.addEventListener("abort", () => resolve());
    });
  const rests = openRests({ ...ports, clock: { ...ports.clock, pause } });
  const first = rests.begin(HOST, "no fan");
  await vi.waitUntil(() => pauses.length === 1);
  // More launches that were on their way: it rests on, until the time that it has.
  await rests.begin(HOST, "no fan");
  expect(pauses).toEqual([60_000]);
  drains.delete(HOST);
  const second = rests.begin(HOST, "no fan");
  await first;
  expect(pauses).toEqual([60_000, 120_000]);
  expect(drains.size).toBe(1);
  pass[1]?.();
  await second;
  expect(drains.size).toBe(0);
});

it("a disk is full with less room than a launch needs, and has room again with twice as much", () => {
  const free = new Map([
    ["/a", 100],
    ["/b", 64],
  ]);
  const check = createDiskCheck({
    files: { freeBytes: (dir) => (free.get(dir) ?? 0) * 2 ** 20 },
    dirs: ["/a", "/b"],
    minFreeBytes: 64 * 2 ** 20,
  });
  const kindWith = (mebibytes: number) => {
    free.set("/b", mebibytes);
    return check().kind;
  };
  expect(check()).toEqual({ kind: "passed" });
  free.set("/b", 63);
  expect(check()).toMatchObject({
    why: expect.stringContaining("63 MiB are free for /b") as string,
  });
  expect([127, 100].map(kindWith)).toEqual(["failed", "failed"]);
  free.set("/a", 128);
  expect([128, 64, 63].map(kindWith)).toEqual(["passed", "passed", "failed"]);
});

it("a disk that cannot be looked at has no room, and ends no agent", () => {
  let isThere = false;
  const freeBytes = () => {
    if (!isThere) throw new Error("ENOENT: no such file or directory, statfs '/a'");
    return 2 ** 30;
  };
  const check = createDiskCheck({ files: { freeBytes }, dirs: ["/a"], minFreeBytes: 2 ** 26 });
  expect(check()).toMatchObject({
    kind: "failed",
    why: expect.stringMatching(/^nobody knows how much is \(.*ENOENT.*\) free for \/a/) as string,
  });
  isThere = true;
  expect(check()).toEqual({ kind: "passed" });
});
