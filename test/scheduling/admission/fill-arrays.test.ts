/** @file Filling job arrays: as many gangs as one host holds, the fullest host first, and one item a host. */
import { describe, expect, test } from "vitest";
import type { PlanItem } from "../../../domain/lease/plan.ts";
import { jobId, runId } from "../../../domain/values/ids.ts";
import { asOneGang, fillArray, joinItem } from "../../../scheduling/admission/fill-arrays.ts";
import { plainPlace } from "../../../scheduling/cycle/policy-sets.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import {
  fleetShape,
  gpus,
  leased,
  readyLedger,
  type RequestSpec,
  type TenantSpec,
} from "../builders.ts";
import { reserved } from "../reservation/reservations.ts";
import { pendingRequest, viewAt, withReservations } from "../views.ts";

const ready = (tenants: readonly TenantSpec[] = [], powerWatts = 50_000): Ledger =>
  readyLedger(fleetShape([{ hosts: [{}, {}, {}], powerWatts }], tenants));
/** Free: all of h0, three GPUs of h1, five of h2. */
const busy = (tenants: readonly TenantSpec[] = [], powerWatts?: number): Ledger =>
  leased(
    leased(
      ready(tenants, powerWatts),
      { job: "x", tenant: "other", gpus: 5 },
      gpus(["c0/h1", 0b1_1111]),
    ),
    { job: "y", tenant: "other", gpus: 3 },
    gpus(["c0/h2", 0b111]),
  );

function filled(ledger: Ledger, spec: RequestSpec, slots: number) {
  const view = viewAt(ledger);
  const gang = asOneGang(pendingRequest({ slots: 99, ...spec }), view);
  const context = { snapshot: ledger, place: plainPlace, ports: {} };
  const found = fillArray(gang, slots, { view, context });
  return found.kind === "grant" ? { slots: found.item.slots, gpus: found.item.gpus } : found.code;
}

describe("a fill", () => {
  test.each<{
    name: string;
    ledger?: Ledger;
    spec: RequestSpec;
    slots?: number;
    want: ReturnType<typeof filled>;
  }>([
    {
      name: "takes all of the host with the fewest free GPUs",
      spec: { gpus: 1 },
      want: { slots: 3, gpus: gpus(["c0/h1", 0b1110_0000]) },
    },
    {
      name: "takes whole gangs only",
      spec: { gpus: 2 },
      want: { slots: 1, gpus: gpus(["c0/h1", 0b0110_0000]) },
    },
    {
      name: "passes over hosts that hold no gang",
      spec: { gpus: 4 },
      want: { slots: 1, gpus: gpus(["c0/h2", 0b0111_1000]) },
    },
    {
      name: "takes the lowest host of equals",
      ledger: ready(),
      spec: { gpus: 4 },
      want: { slots: 2, gpus: gpus(["c0/h0", 0xff]) },
    },
    {
      name: "takes no more gangs than are wanted",
      spec: { gpus: 1 },
      slots: 2,
      want: { slots: 2, gpus: gpus(["c0/h1", 0b0110_0000]) },
    },
    {
      name: "stays within the quota",
      ledger: busy([{ id: "t", quota: { H100: 2 } }]),
      spec: { gpus: 1 },
      want: { slots: 2, gpus: gpus(["c0/h1", 0b0110_0000]) },
    },
    {
      name: "stays within the watts",
      ledger: busy([], 9 * 700),
      spec: { gpus: 1 },
      want: { slots: 1, gpus: gpus(["c0/h1", 0b0010_0000]) },
    },
    {
      name: "leaves reserved GPUs alone",
      ledger: withReservations(busy(), reserved("next", gpus(["c0/h1", 0b0110_0000]))),
      spec: { gpus: 1 },
      want: { slots: 1, gpus: gpus(["c0/h1", 0b1000_0000]) },
    },
    {
      name: "waits where no host holds a gang, though hosts together would",
      ledger: leased(busy(), { job: "z", gpus: 4 }, gpus(["c0/h0", 0x0f])),
      spec: { gpus: 6 },
      want: "TopologyPlacementFailed",
    },
    {
      name: "places a gang that no host could ever hold over several, one at a time",
      ledger: ready(),
      spec: { gpus: 12 },
      want: { slots: 1, gpus: gpus(["c0/h0", 0xff], ["c0/h1", 0x0f]) },
    },
  ])("$name", ({ ledger = busy(), spec, slots = 99, want }) => {
    expect(filled(ledger, spec, slots)).toEqual(want);
  });
});

test("a gang of an array is whole, and on one host if any could hold it", () => {
  const view = viewAt(busy());
  const gangOf = (spec: RequestSpec) => asOneGang(pendingRequest(spec), view);
  const small = gangOf({ gpus: 8, slots: 3, gang: { min: 2 } });
  expect(small).toMatchObject({ gang: { gpus: 8, min: 8 }, constraints: { isSameHost: true } });
  expect(gangOf({ gpus: 9, slots: 3 }).constraints.isSameHost).toBe(false);
  const alone = pendingRequest({ gpus: 8, gang: { min: 2 } });
  expect(asOneGang(alone, view)).toBe(alone);
});

describe("items of one array", () => {
  const item = (job: string, name: string, mask: number, slots?: number): PlanItem => ({
    kind: "grant",
    request: { jobId: jobId(job), runId: runId("r"), seq: 1 },
    gpus: gpus([name, mask]),
    ...(slots !== undefined && { slots }),
    reason: `${job} on ${name}`,
  });

  test("are joined on one host, and nowhere else", () => {
    const items: PlanItem[] = [];
    const all = [
      item("a", "c0/h0", 0b0001, 1),
      item("b", "c0/h0", 0b0010, 1),
      item("a", "c0/h1", 0b0001, 1),
      item("a", "c0/h0", 0b1100, 2),
      item("c", "c0/h2", 0b0001),
      item("c", "c0/h2", 0b0010),
    ];
    for (const each of all) joinItem(items, each);
    expect(
      items.map(({ request, gpus: [part], slots }) => [
        request.jobId,
        part?.host,
        part?.mask,
        slots,
      ]),
    ).toEqual([
      ["a", "c0/h0", 0b1101, 3],
      ["b", "c0/h0", 0b0010, 1],
      ["a", "c0/h1", 0b0001, 1],
      ["c", "c0/h2", 0b0001, undefined],
      ["c", "c0/h2", 0b0010, undefined],
    ]);
  });

  test("that are joined forget the bandwidth of their first gang", () => {
    const items: PlanItem[] = [];
    joinItem(items, { ...item("a", "c0/h0", 1, 1), bandwidth: { method: "compact" } });
    joinItem(items, item("a", "c0/h0", 2, 1));
    expect(items[0]).not.toHaveProperty("bandwidth");
  });
});
