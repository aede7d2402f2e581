/** @file A job whose gang has lost a host: for how long it wants the others kept, in which cases, and that it asks again at once. */
import { describe, expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import { parseHostId } from "../../../domain/values/ids.ts";
import type { JobSpec } from "../../../domain/job/job.ts";
import type { JobEvent } from "../../../machines/job/job-state.ts";
import { keptWords } from "../../../machines/job/replacement.ts";
import { playJob, type PlayedJob } from "./builders.ts";

const HOSTS = ["alpha/a1", "alpha/a2", "alpha/a3"].map(parseHostId);
const [FIRST] = HOSTS;
const GPUS = HOSTS.map((host) => ({ host, mask: 0b1 }));

/** It runs on these hosts. */
function running(spec: Partial<JobSpec> = {}, gpus = GPUS): PlayedJob {
  const played = playJob({ file: { gang: gpus.length }, spec });
  played.feed(played.grant(1, { gpus }));
  expect(played.open("run")).toHaveLength(gpus.length);
  return played;
}

/** The first host is given up; the others stop. */
function loseFirst(played: PlayedJob, seq = 1): void {
  played.feed({ kind: "fenced", loss: { lease: `lease-${String(seq)}`, hosts: [FIRST] } });
  while (played.open("stop").length > 0) played.stopped();
  for (const run of played.open("run")) played.ran({ end: "stopped" }, run);
}

/** The entry with which it gave up its first lease. */
function givenUp(played: PlayedJob) {
  played.deliver();
  return played.told.find(({ entry }) => entry.kind === "end" && entry.seq === 1)?.entry;
}

describe("a job whose gang has lost a host", () => {
  test("wants the others kept for five minutes, and asks again at once", () => {
    const played = running();
    loseFirst(played);
    expect(givenUp(played)).toMatchObject({
      returns: true,
      keepMs: 300_000,
      unconfirmedHosts: [FIRST],
    });
    expect(played.stage()).toBe("waiting");
    expect(played.requests().map(({ seq }) => seq)).toEqual([2]);
  });

  test.each([
    { name: "as long as it says", spec: { replaceMs: ms(60_000) }, want: 60_000 },
    { name: "not at all where it says 0", spec: { replaceMs: ms(0) }, want: undefined },
  ])("wants them kept $name", ({ spec, want }) => {
    const played = running(spec);
    loseFirst(played);
    const entry = givenUp(played);
    expect(entry).toMatchObject({ kind: "end", returns: true });
    expect(entry).toEqual(expect.objectContaining(want === undefined ? {} : { keepMs: want }));
    expect(entry !== undefined && "keepMs" in entry).toBe(want !== undefined);
    expect(played.stage()).toBe(want === undefined ? "backing-off" : "waiting");
  });

  test("wants nothing kept when it is cancelled, held or suspended meanwhile", () => {
    const orders: readonly JobEvent[] = [
      { kind: "cancel" },
      { kind: "hold" },
      { kind: "suspend", order: {} },
    ];
    for (const order of orders) {
      const played = running();
      played.feed(order);
      loseFirst(played);
      expect(givenUp(played)).not.toHaveProperty("keepMs");
    }
  });

  test("wants nothing kept where it has one host", () => {
    const played = running({}, GPUS.slice(0, 1));
    loseFirst(played);
    expect(givenUp(played)).not.toHaveProperty("keepMs");
  });

  test("wants nothing kept where its own processes failed on hosts that all answer", () => {
    const played = running({ retry: { attempts: 3, backoffMs: ms(1_000) } });
    const cause = { code: "PROCESS_EXITED", message: "exit 1", atMs: played.now() } as const;
    played.ran({ end: "failed", cause });
    while (played.open("stop").length > 0) played.stopped();
    for (const run of played.open("run")) played.ran({ end: "stopped" }, run);
    expect(givenUp(played)).not.toHaveProperty("keepMs");
    expect(played.stage()).toBe("backing-off");
  });

  test("wants nothing kept when the loss ends it", () => {
    const played = running();
    for (let lost = 1; lost <= 10; lost += 1) {
      loseFirst(played, lost);
      played.deliver();
      if (lost < 10) played.feed(played.grant(lost + 1, { gpus: GPUS }));
    }
    const ends = played.told.flatMap(({ entry }) => (entry.kind === "end" ? [entry] : []));
    expect(ends.map((entry) => entry.keepMs)).toEqual([
      ...Array<number>(9).fill(300_000),
      undefined,
    ]);
    expect(played.outcome()).toMatchObject({ kind: "failed", code: "HOST_LOST" });
  });
});

describe("a job whose fleet has lost its ledger while it waits for a replacement", () => {
  /** What it answers when it is asked what it has. */
  function answered(played: PlayedJob) {
    const before = played.told.length;
    played.feed({ kind: "assert" });
    played.deliver();
    return played.told.slice(before).map(({ entry }) => entry);
  }
  const OTHERS = GPUS.slice(1);

  test("says which of its GPUs were kept, and for how long still", () => {
    const played = running();
    loseFirst(played);
    played.deliver();
    const [former, asked] = answered(played);
    const said = { returns: true, keepMs: 300_000, kept: OTHERS };
    expect(former).toMatchObject({ kind: "end", seq: 1, ...said });
    expect(asked).toMatchObject({ kind: "request", request: { seq: 2 } });
    const later = (ms: number) => keptWords(played.job(), played.now() + ms);
    expect(later(100_000)).toEqual({ ...said, keepMs: 200_000 });
    expect(later(299_999)).toEqual({ ...said, keepMs: 1 });
    expect(later(300_000)).toEqual({});
  });

  test("says nothing when it has lost all of its hosts", () => {
    const played = running();
    played.feed({ kind: "fenced", loss: { lease: "lease-1", hosts: HOSTS } });
    while (played.open("stop").length > 0) played.stopped();
    for (const run of played.open("run")) played.ran({ end: "stopped" }, run);
    played.deliver();
    expect(played.stage()).toBe("waiting");
    for (const entry of answered(played)) expect(entry).not.toHaveProperty("kept");
  });

  test("says nothing of them when it runs again, was held meanwhile, or wants none kept", () => {
    const runs = running();
    loseFirst(runs);
    runs.deliver();
    runs.feed(runs.grant(2, { gpus: GPUS }));
    const held = running();
    loseFirst(held);
    held.deliver();
    held.feed({ kind: "hold" });
    held.wait();
    held.deliver();
    expect(held.stage()).toBe("held");
    held.feed({ kind: "release" });
    held.deliver();
    const none = running({ replaceMs: ms(0) });
    loseFirst(none);
    none.deliver();
    for (const played of [runs, held, none])
      for (const entry of answered(played)) expect(entry).not.toHaveProperty("kept");
  });
});
