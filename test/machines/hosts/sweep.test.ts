import { describe, expect, it } from "vitest";
import { hostId, jobId, leaseId, token } from "../../../domain/values/ids.ts";
import { openSweep, sweepMachine } from "../../../machines/hosts/sweep.ts";
import { play } from "../harness.ts";

const A = hostId("eu", "a");
const B = hostId("eu", "b");
const AGENT = { epoch: "1", runQueue: "run.1", orderQueue: "order.1", address: "10.0.0.1" };

const opened = (...hosts: (typeof A)[]) =>
  play(
    sweepMachine,
    openSweep({ fleet: "f", jobId: jobId("j"), lease: leaseId(token(4)), token: token(4), hosts }),
  );

describe("a sweep", () => {
  it("ends once every host has confirmed, and tells the fleet of each as it does", () => {
    const played = opened(A, B);
    for (const host of [A, B]) {
      expect(played.take("find").host).toBe(host);
      played.feed({ kind: "found", host, agent: AGENT });
      played.take("stop");
      played.feed({ kind: "stopped", host, isConfirmed: true });
      expect(played.take("tell").host).toBe(host);
      expect(played.state().end).toBeUndefined();
      played.feed({ kind: "told", host });
    }
    expect(played.state().end).toEqual({});
    expect(played.open).toEqual([]);
  });

  it("of one pass ends with the hosts that did not answer", () => {
    const ids = { jobId: jobId("j"), lease: leaseId(token(4)), token: token(4) };
    const played = play(sweepMachine, openSweep({ fleet: "f", ...ids, hosts: [A, B], passes: 1 }));
    played.feed({ kind: "found", host: played.take("find").host, agent: AGENT });
    played.feed({ kind: "found", host: played.take("find").host, agent: null });
    played.feed({ kind: "stopped", host: played.take("stop").host, isConfirmed: true });
    played.feed({ kind: "told", host: played.take("tell").host });
    expect(played.state()).toMatchObject({ end: {}, left: [B] });
    expect(played.open).toEqual([]);
  });

  it("asks a host that did not answer again, after pauses of 2 s that double up to 5 minutes", () => {
    const played = opened(A);
    const pauses: number[] = [];
    let nowMs = 0;
    for (let pass = 0; pass < 10; pass += 1) {
      played.take("find");
      played.feed({ kind: "found", host: A, agent: null });
      played.take("check-lease");
      played.feed({ kind: "lease-checked", isHeld: true });
      const resumedAtMs = played.tick();
      pauses.push(resumedAtMs - nowMs);
      nowMs = resumedAtMs;
    }
    expect(pauses.map((ms) => ms / 1_000)).toEqual([2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
  });

  it("asks only the hosts that are left, and ends when the fleet no longer waits for them", () => {
    const played = opened(A, B);
    played.feed({ kind: "found", host: played.take("find").host, agent: AGENT });
    played.feed({ kind: "found", host: played.take("find").host, agent: null });
    played.feed({ kind: "stopped", host: played.take("stop").host, isConfirmed: true });
    played.feed({ kind: "told", host: played.take("tell").host });
    played.take("check-lease");
    played.feed({ kind: "lease-checked", isHeld: true });
    played.tick();
    expect(played.open).toEqual([{ kind: "find", host: B }]);
    played.feed({ kind: "found", host: played.take("find").host, agent: AGENT });
    played.feed({ kind: "stopped", host: played.take("stop").host, isConfirmed: false });
    played.take("check-lease");
    played.feed({ kind: "lease-checked", isHeld: false });
    expect(played.state().end).toEqual({});
  });

  it("goes on in a new run after 100 passes, with the hosts that are left", () => {
    const played = opened(A);
    for (let pass = 0; pass < 100; pass += 1) {
      played.feed({ kind: "found", host: played.take("find").host, agent: null });
      played.take("check-lease");
      played.feed({ kind: "lease-checked", isHeld: true });
      played.tick();
    }
    expect(played.state().end?.next).toMatchObject({ lease: "lease-4", hosts: [A] });
    expect(played.open).toEqual([]);
  });

  it("of no host is over at once", () => {
    expect(opened().state().end).toEqual({});
  });
});
