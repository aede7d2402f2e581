import { describe, expect, it } from "vitest";
import {
  asideKeeper,
  LEAST_HOSTS,
  mostSetAside,
  SET_ASIDE,
  setAside,
  type DrainedHost,
} from "../../../agent/health/set-aside.ts";
import { hostId, type HostId } from "../../../domain/values/ids.ts";

const REASON = `${SET_ASIDE}noon: 3 jobs`;
const names = (count: number) => Array.from({ length: count }, (_, at) => hostId("eu-1", `h${at}`));

/** A fleet of so many hosts; each call takes the turns of the event loop that `delay` says. */
function fleetOf(hostCount: number, delay: () => number = () => 0) {
  const hosts = new Map<HostId, DrainedHost>();
  const notes: string[] = [];
  const late = async (): Promise<void> => {
    for (let turns = delay(); turns > 0; turns -= 1) await Promise.resolve();
  };
  let elapsedMs = 0;
  const ports: Parameters<typeof setAside>[2] = {
    // As agents of their own.
    inTurn: (act) => act(),
    clock: {
      elapsedMs: () => elapsedMs,
      pause: (forMs) => {
        elapsedMs += forMs;
        return late();
      },
    },
    closing: new AbortController().signal,
    onNote: (note) => notes.push(note),
    look: async () => {
      await late();
      const seen = { hostCount, rules: 1, hosts: new Map(hosts) };
      await late();
      return seen;
    },
    drain: async (host, drainReason) => {
      await late();
      hosts.set(host, { isDrained: true, drainReason });
    },
    undrain: async (host) => {
      await late();
      hosts.delete(host);
    },
    isRefusal: () => false,
    waitMs: () => 0,
  };
  return { hosts, notes, ports };
}

describe("hosts that are set aside", () => {
  it.each([
    [1, 0],
    [LEAST_HOSTS - 1, 0],
    [LEAST_HOSTS, 1],
    [9, 1],
    [10, 2],
  ])("of %i are at most %i", async (count, most) => {
    expect(mostSetAside(count)).toBe(most);
    const { hosts, ports } = fleetOf(count);
    const left: HostId[] = [];
    for (const host of names(count))
      if ((await setAside(host, REASON, ports)) === "left") left.push(host);
    expect(hosts.size).toBe(most);
    expect(left).toEqual(names(count).slice(most));
  });

  it("are never more than that, though all look before any drains", async () => {
    for (let seed = 1; seed <= 50; seed += 1) {
      let drawn = seed;
      const delay = () => (drawn = (drawn * 48_271) % 2_147_483_647) % 12;
      const { hosts, ports } = fleetOf(10, delay);
      await Promise.all(names(10).map((host) => setAside(host, REASON, ports)));
      expect(hosts.size).toBeLessThanOrEqual(mostSetAside(10));
    }
  });

  it("of one agent are never more than that, not even for a moment", async () => {
    let drawn = 1;
    const delay = () => (drawn = (drawn * 48_271) % 2_147_483_647) % 12;
    const { hosts, ports } = fleetOf(10, delay);
    let most = 0;
    const drain = async (host: HostId, reason: string): Promise<void> => {
      await ports.drain(host, reason);
      most = Math.max(most, hosts.size);
    };
    const keep = asideKeeper({ ...ports, drain });
    const results = await Promise.all(names(10).map((host) => keep(host, REASON)));
    expect([most, hosts.size]).toEqual([mostSetAside(10), mostSetAside(10)]);
    expect(results.filter((result) => result === "left").length).toBe(8);
  });

  it("give way by themselves alone: what an operator says meanwhile stays", async () => {
    const { hosts, ports } = fleetOf(5);
    const [own = hostId("eu-1", "a"), other = hostId("eu-1", "b")] = names(5);
    const between = (): number => {
      hosts.set(other, { isDrained: true, drainReason: `${SET_ASIDE}one: 3 jobs` });
      hosts.set(own, { isDrained: true, drainReason: "new fans" });
      hosts.set(hostId("eu-1", "c"), { isDrained: true, drainReason: `${SET_ASIDE}two: 3 jobs` });
      return 0;
    };
    await setAside(own, REASON, { ...ports, waitMs: between });
    expect(hosts.get(own)).toEqual({ isDrained: true, drainReason: "new fans" });
  });

  it("are not drained again once an operator has taken the drain back, though the second look had failed", async () => {
    const { hosts, ports } = fleetOf(5);
    const [own = hostId("eu-1", "a")] = names(5);
    let looks = 0;
    const look = async () => {
      looks += 1;
      if (looks !== 2) return ports.look();
      hosts.delete(own);
      throw new Error("no worker answers");
    };
    await setAside(own, REASON, { ...ports, look });
    expect([looks, hosts.has(own)]).toEqual([4, false]);
  });

  it("are not drained again by evidence that came while they were on their way, and are by later evidence", async () => {
    const { hosts, notes, ports } = fleetOf(5);
    const [own = hostId("eu-1", "a")] = names(5);
    const later = `${SET_ASIDE}one: 3 jobs`;
    let drains = 0;
    const drain = async (host: HostId, reason: string): Promise<void> => {
      drains += 1;
      if (drains === 1) throw new Error("no worker answers");
      await ports.drain(host, reason);
      // An operator takes it back at once.
      hosts.delete(host);
    };
    const keep = asideKeeper({ ...ports, drain });
    await Promise.all([keep(own, REASON), keep(own, later)]);
    expect([drains, hosts.size]).toEqual([2, 0]);
    expect(notes).toContainEqual(expect.stringContaining(`and so not ${later}`));
    await keep(own, later);
    expect(drains).toBe(3);
  });

  it("leave a host alone that is drained already", async () => {
    const { hosts, ports } = fleetOf(5);
    const [own = hostId("eu-1", "a")] = names(5);
    hosts.set(own, { isDrained: true, drainReason: "new fans" });
    await setAside(own, REASON, ports);
    expect(hosts.get(own)?.drainReason).toBe("new fans");
  });

  it("are said once while the fleet does not answer, and given up after an hour, or at once where it refuses", async () => {
    const [own = hostId("eu-1", "a")] = names(5);
    const { notes, ports, hosts } = fleetOf(5);
    const deaf = { ...ports, look: () => Promise.reject(new Error("no answer")) };
    expect(await setAside(own, REASON, deaf)).toBe("left");
    expect(notes).toEqual([
      expect.stringMatching(/not drained yet .*no answer/),
      expect.stringMatching(/not drained \(.*no answer/),
    ]);
    notes.length = 0;
    expect(await setAside(own, REASON, { ...deaf, isRefusal: () => true })).toBe("left");
    expect(notes).toHaveLength(1);
    let tries = 0;
    const lost = async (host: HostId, reason: string): Promise<void> => {
      tries += 1;
      await ports.drain(host, reason);
      throw new Error("no answer");
    };
    await setAside(own, REASON, { ...ports, drain: lost });
    expect([tries, hosts.get(own)?.drainReason]).toEqual([1, REASON]);
  });
});
