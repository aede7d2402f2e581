/** @file A short run of `bench placement`: topologies are read, plays are repeatable, judges are strict; its times are for a quiet machine. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { arrivalsOf, faultOf, makeRoom, openBook, start } from "../../bench/placement/play.ts";
import { measureQuality, measureScale } from "../../bench/placement/quality.ts";
import { measureSpeed } from "../../bench/placement/speed.ts";
import { drawnTopology, partOf, tableTopology } from "../../bench/placement/topology.ts";
import { randomFrom } from "../../lib/random.ts";
import { bestClusters } from "../../scheduling/placement/best-clusters.ts";
import { benchRequest } from "../support/bench-request.ts";

const folder = mkdtempSync(join(tmpdir(), "orbweaver-placement-"));
afterAll(() => {
  rmSync(folder, { recursive: true });
});

const SIZES: Readonly<Record<string, number>> = {
  decisions: 100,
  genetic: 5,
  ilp: 1,
  scenes: 40,
  "second-opinions": 1,
};
const request = benchRequest({ size: (name) => SIZES[name] ?? 8 });

const drawn = drawnTopology(
  { name: "nine", gpus: [8, 8, 16, 4, 8, 8, 24, 8, 2], linked: 0.3, widestGbps: 25 },
  randomFrom(1, "nine"),
);

test("drawn links join all clusters", () => {
  expect(drawn.graph.part.every((part) => part === 0)).toBe(true);
});

test("a ledger keeps what is free and what links carry in step with its gangs", () => {
  const book = openBook(drawn);
  const ends = randomFrom(1, "ends");
  for (const arrival of arrivalsOf(drawn, 300, randomFrom(1, "arrivals"))) {
    makeRoom(book, arrival, ends);
    expect(book.held + arrival.demand.gpus).toBeLessThanOrEqual(arrival.most);
    const { choice } = bestClusters(arrival.demand, book.room);
    expect(choice).toBeDefined();
    if (choice === undefined) continue;
    expect(faultOf(choice, arrival.demand, book.room)).toBeUndefined();
    start(book, choice);
  }
  makeRoom(book, { demand: { gpus: 0, maxClusters: 1 }, most: 0 }, ends);
  expect([...book.room.free]).toEqual(drawn.gpus);
  expect(book.room.links.gangs.every((gangs) => gangs === 0)).toBe(true);
  expect(book.room.links.shareGbps).toEqual(drawn.graph.gbps);
});

test.each([
  { fault: "too few GPUs", choice: { clusters: [0], gpus: [3] }, want: "3 of 4 GPUs" },
  { fault: "more than is free", choice: { clusters: [8], gpus: [4] }, want: "4 GPUs of 2 free" },
  { fault: "one twice", choice: { clusters: [0, 0], gpus: [2, 2] }, want: "a cluster twice" },
])("$fault is no answer", ({ choice, want }) => {
  expect(faultOf(choice, { gpus: 4, maxClusters: 9 }, openBook(drawn).room)).toBe(want);
});

test("a table of measured pairs becomes clusters, the mean of repeated rows, the weaker direction", () => {
  const file = join(folder, "pairs.csv");
  writeFileSync(
    file,
    "src_region,dst_region,throughput_received\nb,a,4e9\nb,a,6e9\na,b,9e9\na,c,1e9\nc,c,7e9\n",
  );
  const { graph, gpus } = tableTopology(file, 16);
  expect(gpus).toEqual([16, 16, 16]);
  expect([...graph.gbps]).toEqual([0, 5, 1, 5, 0, 0, 1, 0, 0]);
  expect([...partOf({ name: "", graph, gpus }, [2, 0]).graph.gbps]).toEqual([0, 1, 1, 0]);
});

test.each([
  { content: "region,other\nb,a\n", want: /column src_region is missing/ },
  { content: "src,dst,bandwidth_gbps\na,b,fast\n", want: /line 2: the bandwidth is "fast"/ },
  { content: "src,dst,bandwidth_gbps\na,b,0\n", want: /0 clusters and no links/ },
])("a table that cannot be used is refused: $content", ({ content, want }) => {
  const file = join(folder, "bad.csv");
  writeFileSync(file, content);
  expect(() => tableTopology(file, 8)).toThrow(want);
});

test("ours equals the exhaustive search, and integer programs see nothing better", async () => {
  const { bars } = measureQuality([], request);
  const scale = await measureScale(drawn, request);
  for (const bar of [...bars, ...scale]) expect(bar).toMatchObject({ holds: true });
});

test("every method decides for the same arrivals, and every figure is there", async () => {
  const { timed, table } = await measureSpeed({ topology: drawn }, request);
  expect(timed.map(({ name }) => name)).toEqual([
    "ours",
    "SpinSearch",
    "SpinSearch, literal",
    "Opportunistic",
    "Lyra",
    "MAST",
    "DT-FM",
    "ILP",
  ]);
  expect(timed.every(({ wallSeconds }) => wallSeconds > 0)).toBe(true);
  expect(table.rows.filter(([name]) => name === "ours")[0]?.[3]).toBe("100.0 %");
});
