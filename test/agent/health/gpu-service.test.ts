/** @file Which drains of GPUs an agent orders by what is broken and by what is drained already. */

import { expect, it } from "vitest";
import { asDescribed, gpuOrders, ownDrains } from "../../../agent/health/gpu-service.ts";
import type { DrainedHost } from "../../../agent/health/set-aside.ts";
import { parseHostId } from "../../../domain/values/ids.ts";

const id = parseHostId("lab/h1");
const OWN = "GPU fault since noon: heat";
const NONE = { drain: [], undrain: [], drainHosts: [], undrainHosts: [] };

function orders(out: readonly number[], seen?: DrainedHost) {
  return gpuOrders([{ id, gpuCount: 4 }], new Map(seen && [[id, seen]]), {
    out: new Map(out.map((gpu) => [gpu, `why ${gpu}`])),
    of: "GPU fault",
  });
}

const parts = (...drains: readonly (readonly [mask: number, reason: string])[]): DrainedHost => ({
  isDrained: false,
  gpuDrains: drains.map(([mask, reason]) => ({ mask, reason })),
});

it.each<[string, ReturnType<typeof orders>, Partial<typeof NONE> | object]>([
  [
    "each broken GPU is drained by itself",
    orders([1, 3]),
    {
      drain: [
        { gpus: { host: id, mask: 0b10 }, why: "why 1" },
        { gpus: { host: id, mask: 0b1000 }, why: "why 3" },
      ],
    },
  ],
  ["a GPU that the host lacks changes nothing", orders([7]), {}],
  ["what is drained, by whomever, is not drained again", orders([1], parts([0b10, "fans"])), {}],
  [
    "its own drain of a GPU that is sound again ends, and no other",
    orders([1], parts([0b111, OWN], [0b1000, "fans"])),
    { undrain: [{ host: id, mask: 0b101 }] },
  ],
  ["a host without a sound GPU is drained whole", orders([0, 1, 2, 3]), { drainHosts: [id] }],
  [
    "a host that it had drained whole comes back but for its broken GPU",
    orders([2], { isDrained: true, drainReason: OWN }),
    { drain: [{ gpus: { host: id, mask: 0b100 }, why: "why 2" }], undrainHosts: [id] },
  ],
  [
    "a host that an operator has drained stays so",
    orders([], { isDrained: true, drainReason: "new fans" }),
    {},
  ],
])("%s", (_, got, want) => {
  expect(got).toEqual({ ...NONE, ...want });
});

it("instances of MIG are out with their GPU", () => {
  const gpus = [0, 0, 1].map((gpu, index) => ({ index, gpu, uuid: "", nodes: [], devices: [] }));
  const out = new Map([[0, "heat"]]);
  const { drain } = gpuOrders([{ id, gpuCount: 3, gpus }], new Map(), { out, of: "GPU fault" });
  expect(drain.map(({ gpus: { mask } }) => mask)).toEqual([0b1, 0b10]);
});

it("the check's own drains are those whose reasons begin so", () => {
  const seen = new Map([[id, parts([0b11, OWN], [0b100, "fans"])]]);
  expect(ownDrains([id], seen, "GPU fault")).toEqual([{ host: id, mask: 0b11 }]);
});

it("orders are about the GPUs that the fleet has, and about none of a host that it lacks", () => {
  const other = parseHostId("lab/gone");
  const hosts = [id, other].map((each) => ({ id: each, gpuCount: 8 }));
  const out = new Map([6, 1].map((gpu) => [gpu, "heat"]));
  const described = asDescribed(hosts, new Map([[id, 4]]));
  const { drain } = gpuOrders(described, new Map(), { out, of: "GPU fault" });
  expect(drain).toEqual([{ gpus: { host: id, mask: 0b10 }, why: "heat" }]);
});
