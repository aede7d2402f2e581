/** @file `keep:` of a fleet file and of its tenants: read, refused, and filled in with what holds without it. */

import { describe, expect, it } from "vitest";
import { DEFAULT_KEEP } from "../../../domain/fleet/keep.ts";
import { fleetYaml } from "../../../domain/fleet/fleet-yaml.ts";
import { formatProblem } from "../../../domain/values/file-problem.ts";
import { parseText, SMALL_FLEET } from "../fleet-text.ts";

const DAY_MS = 86_400_000;
const GIB = 2 ** 30;
const read = (more: object) => parseText(fleetYaml({ ...SMALL_FLEET, ...more }));
const fleetOf = (more: object) => {
  const parsed = read(more);
  if (parsed.kind !== "parsed") throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.fleet;
};

describe("keep:", () => {
  it("is read with the quotas of tenants, and what it leaves out holds as without it", () => {
    const { keep, shape } = fleetOf({
      keep: {
        checkpoints: { for: "14d", most: "2 TiB", tenant: "500 GiB" },
        archives: { for: "180d" },
      },
      tenants: [{ name: "research", keep: { checkpoints: "1 TiB", output: "20 GiB" } }],
    });
    expect(keep).toMatchObject({
      checkpoints: { forMs: 14 * DAY_MS, mostBytes: 2_048 * GIB, tenantBytes: 500 * GIB },
      archives: { forMs: 180 * DAY_MS, mostBytes: 2 * GIB },
      logs: DEFAULT_KEEP.logs,
      store: DEFAULT_KEEP.store,
    });
    expect([...(keep?.checkpoints.tenants ?? [])]).toEqual([["research", 1_024 * GIB]]);
    expect([...(keep?.output.tenants ?? [])]).toEqual([["research", 20 * GIB]]);
    expect(shape).toEqual(fleetOf({}).shape);
    expect(fleetOf({}).keep).toBeUndefined();
  });

  it.each([
    [{ checkpoints: { for: "23h" } }, /keep\.checkpoints\.for: .*less than a day.*at least 1d/],
    [{ store: { for: "5m" } }, /keep\.store\.for/],
    [{ checkpoints: { most: "12" } }, /keep\.checkpoints\.most/],
    [{ output: { for: "3d" } }, /keep\.output.*for/],
    [{ tables: { for: "3d" } }, /keep.*tables/],
  ])("%j is refused with its place", (keep, pattern) => {
    const parsed = read({ keep });
    expect(parsed.kind).toBe("refused");
    const text = "problems" in parsed ? parsed.problems.map(formatProblem).join("\n") : "";
    expect(text).toMatch(pattern);
  });
});
