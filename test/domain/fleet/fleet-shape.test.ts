/** @file The guard over a fleet's shape: it lets every parsed fleet pass and nothing else. */

import fc from "fast-check";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import { fleetShapeProblem } from "../../../domain/fleet/fleet-shape.ts";

const DATA = path.resolve(import.meta.dirname, "../../../data/fleets");

function shapeOf(file: string): unknown {
  const read = (name: string) => ({
    kind: "text" as const,
    text: readFileSync(path.resolve(DATA, name), "utf8"),
  });
  const parsed = parseFleetYaml(readFileSync(path.join(DATA, file), "utf8"), { file, read });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return structuredClone(parsed.fleet.shape);
}

describe("fleetShapeProblem", () => {
  it.each(["demo.yaml", "small.yaml"])("has nothing to say about %s", (file) => {
    expect(fleetShapeProblem(shapeOf(file))).toBeUndefined();
  });

  it.each([
    { name: "no shape", shape: undefined, want: /not an object/ },
    { name: "no lists", shape: {}, want: /clusters, links and tenants/ },
    {
      name: "31 GPUs",
      shape: {
        clusters: [
          {
            id: "a",
            hosts: [{ id: "a/b", gpuType: "X", gpuCount: 31, gpuMemoryGiB: 1, gpuWatts: 1 }],
          },
        ],
        links: [],
        tenants: [],
      },
      want: /1 to 30/,
    },
    {
      name: "devices that nobody knows",
      shape: {
        clusters: [
          {
            id: "a",
            hosts: [
              {
                ...{ id: "a/b", gpuType: "X", gpuCount: 1, gpuMemoryGiB: 1, gpuWatts: 1 },
                devices: "abacus",
              },
            ],
          },
        ],
        links: [],
        tenants: [],
      },
      want: /the devices of host a\/b are not known/,
    },
    {
      name: "a host of another cluster",
      shape: { clusters: [{ id: "a", hosts: [{ id: "b/b" }] }], links: [], tenants: [] },
      want: /not named a\//,
    },
    {
      name: "a negative quota",
      shape: {
        clusters: [],
        links: [],
        tenants: [{ id: "t", quota: { H100: -1 }, borrowingLimit: 0 }],
      },
      want: /no count/,
    },
  ])("names $name", ({ shape, want }) => {
    expect(fleetShapeProblem(shape)).toMatch(want);
  });

  it("never throws, and refuses arbitrary values", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        expect(typeof fleetShapeProblem(value)).toBe("string");
      }),
    );
  });
});
