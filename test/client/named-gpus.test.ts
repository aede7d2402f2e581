/** @file GPUs of hosts as operators name them. */

import { expect, it } from "vitest";
import { partsOf } from "../../client/named-gpus.ts";

it("the same GPUs of each host, once", () => {
  expect(partsOf({ hosts: ["lab/h1", "lab/h2", "lab/h1"], gpus: [3, 0, 3] })).toEqual([
    { host: "lab/h1", mask: 0b1001 },
    { host: "lab/h2", mask: 0b1001 },
  ]);
});

it.each([
  ["no GPU", ["lab/h1"], []],
  ["a GPU that no host has", ["lab/h1"], [30]],
  ["an empty name", ["lab/h1", ""], [0]],
  ["a name with white space", ["lab h1"], [0]],
])("%s is refused", (_what, hosts, gpus) => {
  expect(() => partsOf({ hosts, gpus })).toThrow(expect.objectContaining({ code: "BAD_INPUT" }));
});
