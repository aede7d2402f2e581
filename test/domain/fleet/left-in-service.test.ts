/** @file What agents tell of hosts that they left in service is untrusted data. */

import { expect, it } from "vitest";
import { readLeftInService } from "../../../domain/fleet/left-in-service.ts";

it("reads the evidence of each host, its beginning alone, and nothing of another form", () => {
  const why = "2030-05-04T06:00:00Z: the prologue of lease-12 failed";
  const long = "x".repeat(1_000);
  const left = { "lab/h1": why, "lab/h2": long, lab: why, "lab/h3": 7 };
  expect([...readLeftInService({ use: {}, left })]).toEqual([
    ["lab/h1", why],
    ["lab/h2", long.slice(0, 300)],
  ]);
  for (const other of [undefined, {}, { left: [why] }, { left: why }])
    expect([...readLeftInService(other)]).toEqual([]);
});
