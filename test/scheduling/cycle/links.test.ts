/** @file Which clusters a gang over several of them gets in a cycle: by their number and the links between them, and what its note says. */
import { describe, expect, test } from "vitest";
import type { FleetShape, Link } from "../../../domain/fleet/fleet.ts";
import { clusterId, clusterOf } from "../../../domain/values/ids.ts";
import type { Plan } from "../../../domain/lease/plan.ts";
import { gbps, ms } from "../../../domain/values/units.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { applyPlan, ask, fleetShape, inbox, readyLedger, type RequestSpec } from "../builders.ts";

const link = (from: number, to: number, rate: number): Link => ({
  from: clusterId(`c${from}`),
  to: clusterId(`c${to}`),
  bandwidthGbps: gbps(rate),
  latencyMs: ms(10),
});

/** A cluster for each number, with one host of so many GPUs. */
const fleet = (gpus: readonly number[], links: readonly Link[]): FleetShape => ({
  ...fleetShape(gpus.map((own) => ({ hosts: [{ gpus: own }] }))),
  links,
});

const wide = { maxClusters: 4 };

function planFor(shape: FleetShape, ...asked: readonly RequestSpec[]): Plan {
  const waiting = inbox(
    readyLedger(shape),
    asked.map((spec, at) => ask({ job: `j${at}`, constraints: wide, submittedAtMs: at, ...spec })),
  );
  return decide(waiting.ledger, 0);
}

const granted = ({ items }: Plan): readonly string[] =>
  items.map(({ gpus }) => [...new Set(gpus.map(({ host }) => clusterOf(host)))].sort().join("+"));

describe("a gang of 8 over clusters of 4", () => {
  const links = [link(0, 1, 1), link(1, 2, 5), link(2, 3, 40), link(0, 3, 8)];

  test("gets the pair with the widest way between them, and its note says how wide", () => {
    const plan = planFor(fleet([4, 4, 4, 4], links), { gpus: 8 });
    expect(granted(plan)).toEqual(["c2+c3"]);
    expect(plan.items[0]?.bandwidth).toEqual({
      method: "compact",
      links: { clusters: ["c2", "c3"], bottleneckGbs: 5 },
    });
  });

  test("without links gets the first ones, and no note", () => {
    const plan = planFor(fleet([4, 4, 4, 4], []), { gpus: 8 });
    expect(granted(plan)).toEqual(["c0+c1"]);
    expect(plan.items[0]?.bandwidth).toBeUndefined();
  });
});

test.each([
  { prefer: "bandwidth", want: "c0+c1" },
  { prefer: "latency", want: "c1+c2" },
  { prefer: "price", want: "c0+c2" },
] as const)("a job that prefers $prefer gets $want", ({ prefer, want }) => {
  const links = [
    { ...link(0, 1, 9), latencyMs: ms(9), usdPerGB: 0.09 },
    { ...link(1, 2, 2), latencyMs: ms(2), usdPerGB: 0.05 },
    { ...link(0, 2, 5), latencyMs: ms(20), usdPerGB: 0.01 },
  ];
  const constraints = { maxClusters: 2, prefer };
  const waiting = inbox(readyLedger(fleet([4, 4, 4], links)), [ask({ gpus: 8, constraints })]);
  expect(granted(decide(waiting.ledger, 0))).toEqual([want]);
});

test("preferences are kept apart when the ledger is carried over", () => {
  const constraints = { maxClusters: 2 };
  const { ledger } = inbox(readyLedger(fleet([4, 4], [])), [
    ask({ job: "a", gpus: 8, constraints }),
    ask({ job: "b", gpus: 8, constraints: { ...constraints, prefer: "price" } }),
    ask({ job: "c", gpus: 8, constraints: { ...constraints, prefer: "latency" } }),
  ]);
  const carried = unpackLedger(packLedger(ledger));
  expect([...carried.requests.values()].map((request) => request.constraints.prefer)).toEqual([
    undefined,
    "price",
    "latency",
  ]);
});

test("one cluster that holds the gang goes before any two", () => {
  const plan = planFor(fleet([4, 4, 8], [link(0, 1, 400)]), { gpus: 8 });
  expect(granted(plan)).toEqual(["c2"]);
  expect(plan.items[0]?.bandwidth).toBeUndefined();
});

test("two clusters go before three, however narrow their link", () => {
  const links = [link(0, 1, 100), link(1, 2, 100), link(0, 2, 100), link(3, 4, 1)];
  expect(granted(planFor(fleet([4, 4, 4, 6, 6], links), { gpus: 12 }))).toEqual(["c3+c4"]);
});

test("of equally wide pairs the one that strands least", () => {
  const links = [link(0, 1, 10), link(1, 2, 10), link(0, 2, 10)];
  expect(granted(planFor(fleet([7, 4, 5], links), { gpus: 9 }))).toEqual(["c1+c2"]);
});

test("clusters that no link joins are put together only when no others hold the gang", () => {
  const links = [link(0, 1, 1), link(1, 2, 1)];
  const shape = fleet([4, 4, 4, 8], links);
  expect(granted(planFor(shape, { gpus: 12 }))).toEqual(["c0+c1+c2"]);
  const plan = planFor(shape, { gpus: 20 });
  expect(granted(plan)).toEqual(["c0+c1+c2+c3"]);
  expect(plan.items[0]?.bandwidth?.links?.bottleneckGbs).toBe(0);
});

describe("a gang over a relay that another one uses", () => {
  const chain = fleet([4, 1, 4, 4], [link(0, 1, 10), link(1, 2, 10), link(2, 3, 10)]);
  const [first, second] = [
    { job: "a", gpus: 8, constraints: wide },
    { job: "b", gpus: 5, constraints: wide },
  ];
  const want = { method: "compact", links: { clusters: ["c1", "c3"], bottleneckGbs: 5 / 8 } };

  test("gets half of the link when both start in one cycle", () => {
    const plan = planFor(chain, first, second);
    expect(granted(plan)).toEqual(["c0+c2", "c1+c3"]);
    expect(plan.items[1]?.bandwidth).toEqual(want);
  });

  test("and when the other one runs already", () => {
    const asked = inbox(readyLedger(chain), [ask(first)]).ledger;
    const running = applyPlan(asked, decide(asked, 0)).ledger;
    const plan = decide(inbox(running, [ask(second)]).ledger, 0);
    expect(plan.items[0]?.bandwidth).toEqual(want);
  });
});
