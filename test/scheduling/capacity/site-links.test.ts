/** @file Measured links in the ledger, as decisions read them, and gangs that keep off links which are out. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { FleetShape, Link } from "../../../domain/fleet/fleet.ts";
import { clusterId } from "../../../domain/values/ids.ts";
import { sitePairKey, type SiteLink } from "../../../domain/fleet/site-link.ts";
import { gbps, ms } from "../../../domain/values/units.ts";
import { apply } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { linksNow } from "../../../scheduling/capacity/site-links.ts";
import { connectedSets } from "../../../scheduling/admission/reachable-placement.ts";
import { ask, fleetShape, inbox, readyLedger } from "../builders.ts";

const DECLARED: Link = {
  from: clusterId("c0"),
  to: clusterId("c1"),
  bandwidthGbps: gbps(5),
  latencyMs: ms(90),
  usdPerGB: 0.02,
};
/** Three clusters of one host with 4 GPUs, each in a site of its own, and one link described. */
const SHAPE: FleetShape = {
  ...fleetShape([{ hosts: [{ gpus: 4 }] }, { hosts: [{ gpus: 4 }] }, { hosts: [{ gpus: 4 }] }]),
  links: [DECLARED],
};
const READY = readyLedger(SHAPE);

const word = (spec: Partial<SiteLink> & { gbps?: number } = {}): SiteLink => {
  const { gbps: rate, ...rest } = spec;
  return {
    from: "site-c0",
    to: "site-c1",
    checkedAtMs: 0,
    validUntilMs: 1_000,
    ...(rate !== undefined && {
      measured: {
        bandwidthGbps: gbps(rate),
        spreadGbps: gbps(0),
        roundTripMs: ms(7),
        atMs: 0,
        probes: 3,
      },
    }),
    ...rest,
  };
};
const notified = (words: readonly object[], ledger: Ledger = READY, nowMs = 0) =>
  apply(ledger, { kind: "inbox", entries: [{ kind: "links", links: words }], nowMs });
const throughJson = (ledger: Ledger): Ledger =>
  unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as ReturnType<typeof packLedger>);

test.each([
  {
    name: "of two words the one checked later counts",
    words: [
      [1, 4],
      [2, 6],
    ],
    want: 6,
  },
  {
    name: "also when it comes first",
    words: [
      [2, 6],
      [1, 4],
    ],
    want: 6,
  },
  {
    name: "said twice is said once",
    words: [
      [1, 4],
      [1, 9],
    ],
    want: 4,
  },
])("$name", ({ words, want }) => {
  const links = words.map(([checkedAtMs = 0, rate = 0]) => word({ checkedAtMs, gbps: rate }));
  const { ledger } = notified(links, READY, 10);
  expect(
    [...(ledger.links?.values() ?? [])].map(({ measured }) => measured?.bandwidthGbps),
  ).toEqual([want]);
  expect(throughJson(ledger)).toEqual(ledger);
});

test("only a link that goes out or comes back is a reason to decide again", () => {
  const first = notified([word({ gbps: 4 })]);
  const out = notified([word({ gbps: 4, checkedAtMs: 1, outageSinceMs: 1 })], first.ledger, 1);
  const again = notified([word({ gbps: 4, checkedAtMs: 1, outageSinceMs: 1 })], out.ledger, 2);
  const back = notified([word({ gbps: 4, checkedAtMs: 2 })], again.ledger, 3);
  const steps = [first, out, again, back];
  expect(steps.map(({ needsDecision }) => needsDecision)).toEqual([false, true, false, true]);
  expect(again.ledger).toBe(out.ledger);
});

test.each([
  { name: "a site that the fleet lacks", links: [word({ to: "site-c9" })], want: "HostUnknown" },
  { name: "a site to itself", links: [word({ to: "site-c0" })], want: "HostUnknown" },
  { name: "no list", links: 7, want: "EntryMalformed" },
  {
    name: "words that end before they begin",
    links: [word({ validUntilMs: -1 })],
    want: "EntryMalformed",
  },
])("a word of $name is a dead letter", ({ links, want }) => {
  const { ledger } = apply(READY, { kind: "inbox", entries: [{ kind: "links", links }], nowMs: 0 });
  expect(ledger.deadLetters.map(({ code }) => code)).toEqual([want]);
  expect(ledger.links).toBeUndefined();
});

test("a site that leaves the fleet takes its links along", () => {
  const { ledger } = notified([
    word({ gbps: 4 }),
    word({ from: "site-c1", to: "site-c2", gbps: 4 }),
  ]);
  const shape = { ...SHAPE, clusters: SHAPE.clusters.slice(1) };
  const after = apply(ledger, { kind: "fleet-changed", shape, nowMs: 0 }).ledger;
  expect([...(after.links?.keys() ?? [])]).toEqual(["site-c1 site-c2"]);
});

const measured: Link = { ...DECLARED, bandwidthGbps: gbps(4), latencyMs: ms(7) };
test.each<{ name: string; words: SiteLink[]; atMs?: number; want: readonly Link[] }>([
  { name: "nothing was measured: as described", words: [], want: [DECLARED] },
  {
    name: "measured: that, with the price that was described",
    words: [word({ gbps: 4 })],
    want: [measured],
  },
  {
    name: "no longer fresh: as described",
    words: [word({ gbps: 4 })],
    atMs: 1_001,
    want: [DECLARED],
  },
  {
    name: "on one machine: as described",
    words: [word({ gbps: 40, isLocal: true })],
    want: [DECLARED],
  },
  { name: "out: none", words: [word({ gbps: 4, outageSinceMs: 0 })], want: [] },
  {
    name: "out the other way: none",
    words: [word({ from: "site-c1", to: "site-c0", outageSinceMs: 0 })],
    want: [],
  },
  {
    name: "out, but that is old: as described",
    words: [word({ outageSinceMs: 0 })],
    atMs: 1_001,
    want: [DECLARED],
  },
  {
    name: "measured where nothing is described: that too",
    words: [word({ from: "site-c2", to: "site-c0", gbps: 4 })],
    want: [
      DECLARED,
      { from: clusterId("c2"), to: clusterId("c0"), bandwidthGbps: gbps(4), latencyMs: ms(7) },
    ],
  },
])("links now, $name", ({ words, atMs = 0, want }) => {
  expect(linksNow(notified(words).ledger, atMs)).toEqual(want);
});

test.each([
  { name: "no link is out", out: [] as string[][], gpus: 8, want: ["c0", "c1"] },
  {
    name: "the first two are cut off from each other",
    out: [["c0", "c1"]],
    gpus: 8,
    want: ["c0", "c2"],
  },
  {
    name: "no two reach each other",
    out: [
      ["c0", "c1"],
      ["c0", "c2"],
      ["c1", "c2"],
    ],
    gpus: 8,
    want: undefined,
  },
  { name: "the gang fits into one", out: [["c0", "c1"]], gpus: 4, want: ["c0"] },
  { name: "all three would be needed", out: [["c0", "c1"]], gpus: 12, want: undefined },
])("a gang of $gpus where $name", ({ out, gpus, want }) => {
  const dead = out.map(([from = "", to = ""]) =>
    word({ from: `site-${from}`, to: `site-${to}`, outageSinceMs: 0 }),
  );
  const { ledger } = inbox(notified(dead).ledger, [ask({ gpus, constraints: { maxClusters: 3 } })]);
  const [item] = decide(ledger, 0).items;
  expect(item?.gpus.map(({ host }) => host.split("/")[0])).toEqual(want);
});

test("a gang that waits for a dead link starts when the word of it is old", () => {
  const dead = notified([
    word({ outageSinceMs: 0 }),
    word({ to: "site-c2", outageSinceMs: 0 }),
    word({ from: "site-c1", to: "site-c2", outageSinceMs: 0 }),
  ]);
  const { ledger } = inbox(dead.ledger, [ask({ gpus: 8, constraints: { maxClusters: 3 } })]);
  const waiting = decide(ledger, 0);
  expect(waiting).toMatchObject({ items: [], wakeAtMs: 1_001 });
  expect(waiting.pending[0]?.reason.message).toContain("site-c0 – site-c1");
  expect(decide(ledger, 1_001).items).toHaveLength(1);
});

test("sets of sites that reach each other: each is connected, none can grow, and there is no other", () => {
  const SITES = ["a", "b", "c", "d", "e"];
  const pairs = SITES.flatMap((a, at) => SITES.slice(at + 1).map((b) => sitePairKey(a, b)));
  fc.assert(
    fc.property(fc.subarray(pairs), (cut) => {
      const dead = new Set(cut);
      const isSet = (sites: readonly string[]): boolean =>
        sites.every((a, at) => sites.slice(at + 1).every((b) => !dead.has(sitePairKey(a, b))));
      const subsets = Array.from({ length: 31 }, (_, bits) =>
        SITES.filter((_site, at) => ((bits + 1) >> at) & 1),
      ).filter(isSet);
      const want = subsets.filter((set) =>
        SITES.every((site) => set.includes(site) || !isSet([...set, site])),
      );
      const found = connectedSets(SITES, dead).map((set) => [...set].join());
      expect([...found].sort()).toEqual(want.map((set) => set.join()).sort());
    }),
  );
});
