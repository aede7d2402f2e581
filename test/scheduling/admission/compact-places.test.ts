/** @file Rigid gangs wait for a compact place, by a reservation of one where none is free; others take what there is. */
import { describe, expect, test } from "vitest";
import { ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { fleetShape, gangRequest, gpus, inbox, leased, readyLedger } from "../builders.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
type Spec = Parameters<typeof gangRequest>[0];

/** Each host has four free GPUs; the leases end at these times. */
function scattered(spec: Spec, shape = SHAPE, ends = [60_000, 90_000]): Ledger {
  const [first = 0, second = 0] = ends;
  const held = leased(
    leased(
      readyLedger(shape),
      { job: "x", gpus: 4, timeLimitMs: ms(first) },
      gpus(["c0/h0", 0x0f]),
    ),
    { job: "y", gpus: 4, timeLimitMs: ms(second) },
    gpus(["c0/h1", 0x0f]),
  );
  return inbox(held, [{ kind: "request", request: gangRequest({ job: "w", ...spec }) }]).ledger;
}

const startOf = (ledger: Ledger): number | undefined =>
  decide(ledger, 1).items.find(({ request }) => request.jobId === jobId("w"))?.gpus.length;

describe("a gang of 8 where two hosts have four free GPUs each", () => {
  test("waits, and reserves the host that is free first", () => {
    const ledger = scattered({ gpus: 8 });
    const plan = decide(ledger, 1);
    expect(plan.items).toEqual([]);
    expect(plan.pending[0]?.reason.code).toBe("TopologyPlacementFailed");
    expect(plan.reserve).toMatchObject([{ jobId: "w", gpus: gpus(["c0/h0", 0xff]) }]);
  });

  test("reserves the other one where that is free first", () => {
    const plan = decide(scattered({ gpus: 8 }, SHAPE, [90_000, 60_000]), 1);
    expect(plan.reserve).toMatchObject([{ jobId: "w", gpus: gpus(["c0/h1", 0xff]) }]);
  });

  test.each<readonly [name: string, spec: Spec]>([
    ["that accepts less, after its timeout", { gang: { min: 2, timeoutMs: ms(0) } }],
    ["of a person who waits", { class: "interactive" }],
    ["of inference", { class: "inference" }],
  ])("starts at once %s", (_name, spec) => {
    expect(startOf(scattered({ gpus: 8, ...spec }))).toBeDefined();
  });
});

test("a gang starts on three hosts where two suffice only if it is not much slower there", () => {
  const shape = fleetShape([{ hosts: [{}, {}, {}] }]);
  const held = (job: string, mask: number, at: string): Spec & { mask: number; at: string } => ({
    job,
    mask,
    at,
  });
  let ledger = readyLedger(shape);
  for (const { job, mask, at } of [
    held("x", 0x03, "c0/h0"),
    held("y", 0x03, "c0/h1"),
    held("z", 0x0f, "c0/h2"),
  ])
    ledger = leased(ledger, { job: job ?? "", gpus: mask === 3 ? 2 : 4 }, gpus([at, mask]));
  const asking = (count: number): Ledger =>
    inbox(ledger, [{ kind: "request", request: gangRequest({ job: "w", gpus: count }) }]).ledger;
  expect(startOf(asking(12))).toBe(2);
  expect(startOf(asking(16))).toBeUndefined();
});

test("where no host in service could hold it, the best place that there is counts as compact", () => {
  const shape = fleetShape([{ hosts: [{ gpus: 4 }, { gpus: 4 }] }]);
  const request = gangRequest({ job: "w", gpus: 8 });
  const { ledger } = inbox(readyLedger(shape), [{ kind: "request", request }]);
  expect(startOf(ledger)).toBe(2);
});
