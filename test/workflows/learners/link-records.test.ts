/** @file What a link monitor makes of its probes: smoothing, ageing, outages, whose turn it is, and what the fleet hears. */
import { expect, test } from "vitest";
import type { LinkEnds, ProbeReport } from "../../../protocol/link-contract.ts";
import { parseHostId } from "../../../domain/values/ids.ts";
import type { LinkMemory } from "../../../protocol/link-messages.ts";
import {
  endsOf,
  newsOf,
  nextDue,
  nextDueAtMs,
  noteProbe,
  noteNotified,
  pairOf,
  PERIOD_MS,
  withSites,
  wordsOf,
} from "../../../workflows/learners/link-records.ts";

const end = (name: string) => ({ host: parseHostId(`c/${name}`), orderQueue: `order.${name}` });
const site = (name: string, ...ends: readonly string[]): LinkEnds => ({
  site: name,
  ends: ends.map(end),
});
const BOTH = [site("x", "x1", "x2"), site("y", "y1")];
const NEW = withSites([], ["y", "x"], 0);

const through = (there: number, back = there, more: object = {}): ProbeReport => ({
  kind: "through",
  roundTripMs: 80,
  thereGbps: there,
  backGbps: back,
  bytes: 1,
  isLocal: false,
  ...more,
});
const silent: ProbeReport = { kind: "no-answer", message: "refused" };
const probed = (
  memory: LinkMemory,
  reports: readonly (ProbeReport | undefined)[],
  stepMs = 1_000,
) =>
  reports.reduce<LinkMemory>(
    (known, report, at) =>
      noteProbe(known, "x y", { nowMs: at * stepMs, ...(report !== undefined && { report }) }),
    memory,
  );

test("there is one record for each two sites, and what is known of those that stay is kept", () => {
  const three = withSites(NEW, ["z", "x", "y", "x"], 5);
  expect(three.map(pairOf)).toEqual(["x y", "x z", "y z"]);
  const known = probed(NEW, [through(4)]);
  expect(withSites(known, ["x", "y", "z"], 9)[0]).toEqual(known[0]);
  expect(withSites(three, ["y"], 9)).toEqual([]);
});

test("figures are smoothed, each direction by itself, whoever knocked", () => {
  const [record] = probed(NEW, [through(8, 4), through(4, 8), through(16, 4)]);
  // The second knock came from the other side.
  expect(record?.there).toMatchObject({
    bandwidthGbps: 10,
    spreadGbps: 2,
    roundTripMs: 80,
    probes: 3,
  });
  expect(record?.back).toMatchObject({ bandwidthGbps: 4, spreadGbps: 0, probes: 3 });
});

test.each([
  { name: "one failure is none", reports: [silent], want: undefined },
  { name: "two in a row, from both sides", reports: [silent, silent], want: 1_000 },
  { name: "it began when it was noticed", reports: [silent, silent, silent], want: 1_000 },
  {
    name: "a probe that came through ends it",
    reports: [silent, silent, through(4)],
    want: undefined,
  },
  {
    name: "and in between begins the count anew",
    reports: [silent, through(4), silent],
    want: undefined,
  },
  {
    name: "an end that did not take part says nothing",
    reports: [silent, undefined, undefined],
    want: undefined,
  },
])("an outage: $name", ({ reports, want }) => {
  expect(probed(NEW, reports)[0]?.outageSinceMs).toBe(want);
});

test.each([
  { name: "came through", report: through(4), wantMs: PERIOD_MS },
  { name: "on one machine", report: through(4, 4, { isLocal: true }), wantMs: 1_800_000 },
  { name: "no answer", report: silent, wantMs: 10_000 },
  { name: "an end did not take part", report: undefined, wantMs: 60_000 },
])("after a probe that $name the pair rests", ({ report, wantMs }) => {
  expect(nextDueAtMs(probed(NEW, [report]), BOTH)).toBe(wantMs);
});

test("a fleet of many sites probes each pair less often, and its words hold longer", () => {
  const names = Array.from({ length: 64 }, (_, at) => `s${String(at).padStart(2, "0")}`);
  const many = withSites([], names, 0);
  const [first] = noteProbe(many, "s00 s01", { nowMs: 0, report: through(4) });
  expect(many.length).toBe(2_016);
  expect(first?.nextAtMs).toBe(2_016 * 5_000);
  expect(first === undefined ? [] : wordsOf(first, many)[0]?.validUntilMs).toBe(3 * 2_016 * 5_000);
});

test("the one that has been due longest goes first, and none that lacks an end", () => {
  const three = withSites([], ["x", "y", "z"], 0).map((each, at) => ({
    ...each,
    nextAtMs: 9 - at,
  }));
  const all = [...BOTH, site("z", "z1")];
  expect(nextDue(three, all, 20)?.b).toBe("z");
  expect(nextDue(three, all, 20)?.a).toBe("y");
  expect(nextDue(three, BOTH, 20)?.b).toBe("y");
  expect(nextDue(three, [site("x", "x1"), site("y")], 20)).toBeUndefined();
  expect(nextDueAtMs(three, [])).toBe(Infinity);
});

test("sides take turns at knocking, and a site's agents at taking part", () => {
  const names = [0, 1, 2, 3].map((turns) =>
    NEW.flatMap((record) => endsOf({ ...record, turns }, BOTH) ?? []).map(
      ({ orderQueue }) => orderQueue,
    ),
  );
  expect(names).toEqual([
    ["order.x1", "order.y1"],
    ["order.y1", "order.x1"],
    ["order.x2", "order.y1"],
    ["order.y1", "order.x2"],
  ]);
});

test("the fleet hears of what is new, much changed, out, back, or about to be forgotten, and of nothing else", () => {
  const notified = (memory: LinkMemory): LinkMemory => noteNotified(memory, new Set(["x y"]), 0);
  const isNews = (memory: LinkMemory, nowMs: number): boolean => newsOf(memory, nowMs).length > 0;
  const known = notified(probed(NEW, [through(4)]));
  expect(isNews(NEW, 0)).toBe(false);
  expect(isNews(probed(NEW, [silent]), 0)).toBe(false);
  expect(isNews(probed(NEW, [through(4)]), 0)).toBe(true);
  expect(isNews(known, PERIOD_MS)).toBe(false);
  const after = (report: ProbeReport, nowMs: number) => noteProbe(known, "x y", { nowMs, report });
  expect(isNews(after(through(4.1), 1), 1)).toBe(false);
  expect(isNews(after(through(8), 1), 1)).toBe(true);
  expect(isNews(after(through(4), PERIOD_MS), PERIOD_MS)).toBe(true);
  const out = noteProbe(after(silent, 1), "x y", { nowMs: 2, report: silent });
  expect(isNews(after(silent, 1), 1)).toBe(false);
  expect(isNews(out, 2)).toBe(true);
  expect(isNews(notified(out), 3)).toBe(false);
  expect(isNews(noteProbe(notified(out), "x y", { nowMs: 4, report: through(4) }), 4)).toBe(true);
});

test("a word is said of each direction, and holds for three periods", () => {
  const memory = probed(NEW, [through(8, 4)]);
  const words = memory.flatMap((record) => wordsOf(record, memory));
  expect(
    words.map(({ from, to, measured, validUntilMs }) => [
      from,
      to,
      measured?.bandwidthGbps,
      validUntilMs,
    ]),
  ).toEqual([
    ["x", "y", 8, 3 * PERIOD_MS],
    ["y", "x", 4, 3 * PERIOD_MS],
  ]);
});
