/** @file A served model goes where a host keeps its weights, where that costs no communication, and never waits for it. */

import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { popCount } from "../../../domain/lease/lease.ts";
import { parseHostId, type HostId } from "../../../domain/values/ids.ts";
import type { DecidePorts } from "../../../scheduling/cycle/cycle.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { ask, fleetShape, gpus, inbox, leased, readyLedger } from "../builders.ts";

const HOSTS = Array.from({ length: 3 }, () => ({ gpus: 4, type: "L4" }));
const TWO = fleetShape([{ hosts: HOSTS }, { hosts: HOSTS }]);
const SERVED = { class: "inference", name: "pictures", constraints: { isSameHost: true } } as const;

interface Granted {
  readonly host: string | undefined;
  readonly reason: string;
  /** The services that were asked about. */
  readonly asked: readonly string[];
}

function granted(
  keepers: readonly string[],
  { request = SERVED, ledger = readyLedger(TWO), size = 1 }: Partial<Asking> = {},
): Granted {
  const asked: string[] = [];
  const keepersOf: DecidePorts["keepersOf"] = ({ tenant, name }) => {
    asked.push(`${tenant} ${name}`);
    return new Set(keepers.map(parseHostId));
  };
  const waiting = inbox(ledger, [ask({ gpus: size, ...request })]).ledger;
  const [item] = decide(waiting, 1_000, { keepersOf }).items;
  return { host: item?.gpus[0]?.host, reason: item?.reason ?? "", asked };
}

interface Asking {
  readonly request: Parameters<typeof ask>[0];
  readonly ledger: ReturnType<typeof readyLedger>;
  readonly size: number;
}

describe("a served model", () => {
  test("goes to a host that keeps its weights, and the grant says so", () => {
    const found = granted(["c1/h2"]);
    expect(found.host).toBe("c1/h2");
    expect(found.reason).toMatch(/c1\/h2 keeps the weights of what it serves$/);
    expect(found.asked).toEqual(["t pictures"]);
    expect(granted([]).host).toBe("c0/h0");
    expect(granted([]).reason).not.toMatch(/weights/);
  });

  test("takes another host where none of those has room", () => {
    const ledger = leased(readyLedger(TWO), { job: "held", gpus: 4 }, gpus(["c1/h2", 0b1111]));
    expect(granted(["c1/h2"], { ledger })).toMatchObject({
      host: granted([], { ledger }).host,
      reason: granted([], { ledger }).reason,
    });
    expect(granted(["c1/h2", "c1/h0"], { ledger }).host).toBe("c1/h0");
  });

  test("is no job of another class, and none that may lie on several hosts", () => {
    for (const request of [
      { ...SERVED, class: "training" },
      { ...SERVED, constraints: {} },
    ] as const)
      expect(granted(["c1/h2"], { request })).toMatchObject({ host: "c0/h0", asked: [] });
  });

  test("has nobody asked where only one host is left", () => {
    const ledger = TWO.clusters
      .flatMap((cluster) => cluster.hosts.map(({ id }) => id))
      .slice(1)
      .reduce(
        (before, id) => leased(before, { job: `held-${id}`, gpus: 4 }, gpus([id, 0b1111])),
        readyLedger(TWO),
      );
    expect(granted(["c0/h0"], { ledger })).toMatchObject({ host: "c0/h0", asked: [] });
  });

  test("starts whenever it would without, whatever hosts keep", () => {
    const hosts = TWO.clusters.flatMap((cluster) => cluster.hosts.map(({ id }) => id));
    fc.assert(
      fc.property(
        fc.subarray(hosts),
        fc.array(fc.integer({ min: 0, max: 15 }), { minLength: 6, maxLength: 6 }),
        fc.integer({ min: 1, max: 4 }),
        (keepers: readonly HostId[], masks, size) => {
          const ledger = masks.reduce(
            (before, mask, at) =>
              mask === 0
                ? before
                : leased(
                    before,
                    { job: `held-${String(at)}`, gpus: popCount(mask) },
                    gpus([hosts[at] ?? "", mask]),
                  ),
            readyLedger(TWO),
          );
          const usual = granted([], { ledger, size });
          const found = granted(keepers, { ledger, size });
          expect(found.host === undefined).toBe(usual.host === undefined);
          if (/keeps the weights/.test(found.reason)) expect(keepers).toContain(found.host);
        },
      ),
      { numRuns: 60 },
    );
  });

  test("has jobs give way where its weights are kept, of those that lose the same", () => {
    const shape = fleetShape([{ hosts: HOSTS }]);
    const busy = shape.clusters
      .flatMap((cluster) => cluster.hosts.map(({ id }) => id))
      .reduce(
        (before, id) => leased(before, { job: `held-${id}`, gpus: 4 }, gpus([id, 0b1111])),
        readyLedger(shape),
      );
    const evictedFor = (keepers: readonly string[]): unknown => {
      const keepersOf = () => new Set(keepers.map(parseHostId));
      const waiting = inbox(busy, [ask({ gpus: 4, ...SERVED })], 600_000).ledger;
      const { evict = [] } = decide(waiting, 600_000, { keepersOf });
      return evict.map(({ lease }) => busy.leases.get(lease)?.gpus[0]?.host);
    };
    expect(evictedFor(["c0/h0"])).toEqual(["c0/h0"]);
    expect(evictedFor(["c0/h1"])).toEqual(["c0/h1"]);
  });
});
