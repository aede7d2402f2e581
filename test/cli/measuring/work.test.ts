/** @file What a measuring command plans, keeps and gives out. */

import { appendFileSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { costText } from "../../../cli/measuring/cost-text.ts";
import {
  interCsv,
  interTable,
  intraCsv,
  intraTable,
  measuredSets,
  openResults,
  readingsOf,
} from "../../../cli/measuring/results.ts";
import { wordsOfReadings } from "../../../cli/measuring/tell-model.ts";
import { standInFor } from "../../../cli/measuring/stand-in.ts";
import { setsBetween, workOf, type WorkNeed } from "../../../cli/measuring/work.ts";
import type { HostShape } from "../../../domain/fleet/fleet.ts";
import { hostId } from "../../../domain/values/ids.ts";
import type { MeasuredReading } from "../../../domain/bandwidth/measuring.ts";
import { parseBandpilotCsv } from "../../../domain/bandwidth/parse-bandpilot-csv.ts";
import { gib, watts } from "../../../domain/values/units.ts";
import { randomFrom } from "../../../lib/random.ts";
import { lookupDomain } from "../../../models/bandwidth/lookup.ts";
import { packageRoot } from "../../../workers/server/package-root.ts";

const shape = (name: string, gpuCount = 8, gpuType = "H100"): HostShape => ({
  id: hostId("c", name),
  gpuType,
  gpuCount,
  gpuMemoryGiB: gib(80),
  gpuWatts: watts(700),
});

const reading = (
  shares: MeasuredReading["shares"],
  gbs: number,
  atMs: number,
): MeasuredReading => ({
  shares,
  gbs,
  tookMs: 10,
  atMs,
});

const need = (hosts: readonly HostShape[], more: Partial<WorkNeed> = {}): WorkNeed => ({
  domain: lookupDomain(hosts),
  hosts,
  topologies: new Map(),
  measured: [],
  between: 50,
  timedSeconds: new Map(),
  random: randomFrom(1),
  ...more,
});

describe("the work of a measuring run", () => {
  test("has 247 sets for a host of eight GPUs and groups of at most five hosts", () => {
    const hosts = Array.from({ length: 9 }, (_, at) => shape(`h${String(at)}`));
    const { inside, groups, cost } = workOf(need(hosts));
    expect(new Set(inside.map(({ sets }) => sets.length))).toEqual(new Set([247]));
    expect(groups.map((group) => [group.hosts.length, group.sets])).toEqual([
      [4, 25],
      [5, 25],
    ]);
    expect(cost.wallSeconds).toBeCloseTo((247 * 1_288) / 256 + 50 * 2 * (1_288 / 256), 3);
  });

  test("leaves out what is known, and stays within the time", () => {
    const table = { gpuCount: 2, gbsByMask: [null, null, null, 90] };
    const known = { ...shape("h0", 2), table };
    const hosts = [shape("h0", 2), shape("h1", 8)];
    const work = workOf(
      need(hosts, { domain: lookupDomain([known, hosts[1] ?? known]), maxSeconds: 60 }),
    );
    expect(work.inside.map(({ sets }) => sets.length)).toEqual([0, 11]);
    expect(work.groups.map(({ sets }) => sets)).toEqual([0]);
    expect(work.cost.wallSeconds).toBeLessThanOrEqual(60);
    expect(costText(work.cost, 80)).toContain("PAPER");
  });

  test("of other messages takes few sets, those inside a host on that of the first rank", () => {
    const hosts = ["d", "a", "b", "c"].map((name) => shape(name));
    const table = { gpuCount: 8, gbsByMask: Array.from({ length: 256 }, () => 200) };
    const domain = lookupDomain(hosts.map((host) => ({ ...host, table })));
    const asked = need(hosts, { domain, between: 25, isOther: true });
    const { inside, groups } = workOf(asked);
    expect(inside.flatMap(({ sets }) => sets)).toEqual([]);
    expect(groups.map(({ sets }) => sets)).toEqual([25]);
    const sets = setsBetween(asked, hosts, 25);
    const alone = sets.filter(({ shares }) => shares.length === 1);
    expect([sets.length, alone.length]).toEqual([25, 5]);
    expect(new Set(alone.map(({ shares }) => shares[0]?.[0]))).toEqual(new Set(["c/a"]));
  });

  test("an order fits into a job's description", () => {
    const hosts = [shape("a-host-with-a-long-name-1"), shape("a-host-with-a-long-name-2")];
    const [first] = workOf(need(hosts)).inside;
    expect(JSON.stringify(first?.sets).length).toBeLessThan(32_000);
    const between = setsBetween(need(hosts), hosts, 36);
    expect(between).toHaveLength(36);
    expect(new Set(between.map(({ look }) => look)).size).toBe(36);
  });
});

describe("results", () => {
  test("of other messages are no figures of the tables, and go to the model with their messages", () => {
    const messages = { collective: "alltoall", bytes: 2 ** 28 } as const;
    const results = openResults(mkdtempSync(join(tmpdir(), "orbweaver-results-")), "c");
    results.add(reading([["c/a", 3]], 100, 1));
    results.add({ ...reading([["c/a", 3]], 300, 2), messages });
    results.add({ ...reading([["c/a", 3]], 310, 3), messages });
    results.close();
    expect(measuredSets(readingsOf(results))).toEqual([{ shares: [["c/a", 3]], gbs: [100] }]);
    expect(wordsOfReadings(readingsOf(results, messages), messages)).toMatchObject([
      { gpus: [{ host: "c/a", mask: 3 }], gbs: 305, atMs: 3, messages },
    ]);
  });

  test("are there again after a kill, each once, a set with the median of its readings", () => {
    const dir = mkdtempSync(join(tmpdir(), "orbweaver-results-"));
    const first = openResults(dir, "c");
    expect(first.add(reading([["c/a", 3]], 100, 1))).toBe(true);
    expect(first.add(reading([["c/a", 3]], 100, 1))).toBe(false);
    first.setOpenJobs(["measure-1"]);
    first.close();
    appendFileSync(join(first.dir, "c.log"), 'orbweaver-measured {"sha');
    const second = openResults(dir, "c");
    expect(second.openJobs()).toEqual(["measure-1"]);
    second.add(reading([["c/a", 3]], 40, 2));
    second.add(reading([["c/a", 3]], 98, 3));
    second.close();
    const sets = measuredSets(openResults(dir, "c").readings);
    expect(sets).toEqual([{ shares: [["c/a", 3]], gbs: [100, 40, 98] }]);
    expect(intraTable(shape("a", 2), sets, undefined)?.gbsByMask).toEqual([null, null, null, 98]);
  });

  test("go over former tables, and read back as the fleet file's reader has them", () => {
    const hosts = [shape("a", 2), shape("b", 2)];
    const sets = measuredSets([
      reading([["c/a", 3]], 90.5, 1),
      reading(
        [
          ["c/b", 1],
          ["c/a", 2],
        ],
        40.25,
        2,
      ),
    ]);
    const former = { gpuCount: 2, gbsByMask: [null, null, null, 70] };
    const a = intraTable(hosts[0] ?? shape("a"), sets, former);
    const b = intraTable(hosts[1] ?? shape("b"), sets, former);
    expect([a?.gbsByMask[3], b?.gbsByMask[3]]).toEqual([90.5, 70]);
    const inter = interTable(hosts, sets, {
      hosts: ["c/b", "c/a"],
      intraHost: [null, null],
      sets: [{ masks: [3, 3], gbs: [50] }],
    });
    expect(inter?.sets).toEqual([
      { masks: [3, 3], gbs: [50] },
      { masks: [2, 1], gbs: [40.25] },
    ]);
    const parsed = parseBandpilotCsv(interCsv(inter ?? { hosts: [], intraHost: [], sets: [] }), {
      source: "inter",
    });
    expect(parsed.kind === "parsed" && [parsed.table.hosts, parsed.table.sets]).toEqual([
      ["a", "b"],
      inter?.sets,
    ]);
    const inside = parseBandpilotCsv(intraCsv(new Map(a ? [["c/a", a]] : [])), { source: "intra" });
    expect(inside.kind === "parsed" && inside.table.intraHost[0]).toEqual(a);
  });
});

describe("a stand-in", () => {
  const files = [join(packageRoot(), "data/bandpilot/intra_host_16MB.csv")];
  const settings = { files, cwd: "/", seed: 1, delayMs: 0 };

  test("gives each host a measured one of its type, in turn", () => {
    const hosts = [shape("a"), shape("b"), shape("g", 4, "RTX4090"), shape("h", 4, "RTX4090")];
    expect(standInFor(hosts, settings).names).toEqual({
      "c/a": "H100_26",
      "c/b": "H100_27",
      "c/g": "4090",
      "c/h": "4090",
    });
  });

  test("refuses a type that the file lacks", () => {
    expect(() => standInFor([shape("a", 8, "B200")], settings)).toThrow(/no B200 host/);
  });
});
