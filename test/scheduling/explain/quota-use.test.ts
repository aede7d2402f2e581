/** @file What tenants use, borrow and lend of their quotas. */

import { expect, it } from "vitest";
import { quotaUse } from "../../../scheduling/explain/quota-use.ts";
import { fleetShape, gpus } from "../builders.ts";
import { busyLedger } from "../preemption/victims.ts";

const SHAPE = fleetShape(
  [{ name: "eu", jurisdiction: "EU", hosts: [{}, {}, { type: "L4" }] }],
  [
    { id: "red", quota: { H100: 4, "*": 8 }, borrowing: 6 },
    { id: "blue", quota: { H100: 12 } },
  ],
);

it("counts what is used, borrowed above the quota, and held by others of what is not used", () => {
  const busy = busyLedger(
    SHAPE,
    [
      ["r", gpus(["eu/h0", 0xff], ["eu/h1", 0x03]), { tenant: "red", gpus: 10 }],
      ["s", gpus(["eu/h2", 0x01]), { tenant: "red", gpus: 1 }],
      ["b", gpus(["eu/h1", 0x04]), { tenant: "blue", gpus: 1 }],
    ],
    [],
  );
  const of = { tenant: "red", borrowingLimit: 6 };
  expect(quotaUse(busy)).toEqual([
    { ...of, gpuType: "H100", nominalGpus: 4, usedGpus: 10, borrowedGpus: 6, lentGpus: 0 },
    { ...of, gpuType: "*", nominalGpus: 8, usedGpus: 1, borrowedGpus: 0, lentGpus: 0 },
    // Eleven are not used, and five of them are free.
    {
      ...{ tenant: "blue", gpuType: "H100", nominalGpus: 12, usedGpus: 1 },
      ...{ borrowedGpus: 0, borrowingLimit: 0, lentGpus: 6 },
    },
  ]);
});
