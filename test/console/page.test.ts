/** @file What the page computes without a browser: GPUs from rows, their places, the rows of the queue, and a store that follows deltas. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isGpuDrained, readGpus } from "../../page/map/gpus.ts";
import { at, layOut } from "../../page/map/layout.ts";
import { createStore } from "../../page/store.ts";
import { queueRows } from "../../page/views/queue-rows.ts";
import { healthText } from "../../page/text.ts";
import type { HostRow, LeaseRow, RequestRow } from "../../page/wire.ts";

const host = (place: number, rack: string, cluster = "eu"): HostRow => {
  return { cluster, site: "site", rack, gpuType: "H100", gpus: 8, at: place };
};

/** 94 racks of 8 hosts of 8 GPUs in two clusters. */
const LARGE = new Map(
  Array.from({ length: 752 }, (_, place) => [
    `c/h${place}`,
    host(place, `r${Math.floor(place / 8)}`, place < 400 ? "eu" : "us"),
  ]),
);

const lease = (gpus: LeaseRow["gpus"], state: LeaseRow["state"] = "held"): LeaseRow => {
  return { job: "job", class: "training", tenant: "t", state, gpus, sinceMs: 0 };
};

const request = (gpus: number, tenant = "t"): RequestRow => {
  return { name: "n", class: "training", tenant, gpus, priority: 0, submittedAtMs: 1_000 - gpus };
};

describe("the map", () => {
  it("shows 6,016 GPUs on 1,370 × 720 pixels without a scroll bar", () => {
    const { hosts } = readGpus(LARGE, new Map(), { reservations: new Map() });
    const laid = layOut(hosts, { width: 1_370, height: 720 });
    expect(laid.height).toBeLessThanOrEqual(720);
    expect(laid.cellWidth).toBeGreaterThanOrEqual(4);
  });

  it("finds each GPU where it is drawn, at any width, and no two in one place", () => {
    const { hosts } = readGpus(LARGE, new Map(), { reservations: new Map() });
    fc.assert(
      fc.property(fc.integer({ min: 300, max: 2_000 }), fc.nat(751), (width, index) => {
        const laid = layOut(hosts, { width, height: 700 });
        const box = laid.boxes[index];
        if (box === undefined) throw new Error("a host has no place");
        const x = box.x + 3.5 * laid.cellWidth;
        const y = box.y + laid.cellHeight / 2;
        expect(at(laid, () => 8, { x, y })).toEqual({ host: index, gpu: 3 });
        expect(box.x + 8 * laid.cellWidth).toBeLessThanOrEqual(width);
      }),
      { numRuns: 60 },
    );
  });

  it("tells held, vacating and reserved GPUs apart; a lease hides a reservation", () => {
    const hosts = new Map([["c/a", host(0, "r")]]);
    const leases = new Map([
      ["lease-1", lease([["c/a", 0b0011]])],
      ["lease-2", lease([["c/a", 0b0100]], "vacating")],
    ]);
    const reservations = new Map([
      ["next", { gpus: [["c/a", 0b1100] as const], kind: "backfill", sinceMs: 0 }],
    ]);
    const book = readGpus(hosts, leases, { reservations });
    expect([...book.states]).toEqual([1, 1, 4, 5, 0, 0, 0, 0]);
    expect([...book.claimOf]).toEqual([-1, -1, 0, 0, -1, -1, -1, -1]);
  });

  it("shows drained GPUs as such, but for those that a job still holds", () => {
    const gpuDrains = [{ mask: 0b0110, reason: "ECC errors" }];
    const hosts = new Map([["c/a", { ...host(0, "r"), gpuDrains }]]);
    const leases = new Map([["lease-1", lease([["c/a", 0b0011]])]]);
    const book = readGpus(hosts, leases, { reservations: new Map() });
    expect([...book.states]).toEqual([1, 1, 6, 0, 0, 0, 0, 0]);
    const [{ row } = { row: host(0, "r") }] = book.hosts;
    expect([0, 1, 2, 3].map((gpu) => isGpuDrained(row, gpu))).toEqual([false, true, true, false]);
    expect(healthText(hosts.get("c/a") ?? host(0, "r"), 0)).toBe("GPUs 1, 2 drained: ECC errors");
  });
});

describe("the queue", () => {
  const requests = new Map(
    Array.from({ length: 10_000 }, (_, at_) => [`job-${at_}`, request(at_ % 64, `t${at_ % 7}`)]),
  );
  const order = [...requests.keys()].reverse();
  const tables = { requests, reasons: new Map(), reservations: new Map() };
  const all = { text: "", class: "", tenant: "", code: "", sort: "" };

  it("keeps the order of the fleet, and its places under any filter", () => {
    const rows = queueRows(tables, order, { ...all, tenant: "t3" });
    expect(rows.length).toBe([...requests.values()].filter(({ tenant }) => tenant === "t3").length);
    for (const { job, place } of rows) expect(order[place - 1]).toBe(job);
  });

  it("sorts by a column, largest first where asked", () => {
    const sizes = queueRows(tables, order, { ...all, sort: "-gpus" }).map(
      (row) => row.request.gpus,
    );
    expect(sizes).toEqual([...sizes].sort((a, b) => b - a));
    expect(queueRows(tables, order, { ...all, text: "JOB-99" })[0]?.job).toBe("job-9999");
  });
});

describe("the store", () => {
  it("has after deltas what a snapshot would give", () => {
    const store = createStore();
    const facts = { fleet: "f", atMs: 1 };
    const first = { a: request(1), b: request(2) };
    store.take({
      kind: "snapshot",
      facts,
      order: ["b", "a"],
      changes: { requests: { set: first } },
    });
    store.take({ kind: "delta", changes: { requests: { set: { c: request(3) }, gone: ["b"] } } });
    expect(store.order()).toEqual(["a", "c"]);
    store.take({ kind: "delta", order: ["c", "a"] });
    expect(store.order()).toEqual(["c", "a"]);
    expect([...store.tables.requests.keys()]).toEqual(["a", "c"]);
    store.take({ kind: "snapshot", facts, order: [], changes: {} });
    expect(store.tables.requests.size).toBe(0);
  });
});
