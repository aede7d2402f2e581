/** @file The published JSON Schemas are those of the parsers, and the fleets that Orbweaver brings are right. */

import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { parse } from "yaml";
import { formatProblem } from "../../domain/values/file-problem.ts";
import { parseFleetYaml } from "../../domain/fleet/fleet-file.ts";
import { FLEET_JSON_SCHEMA } from "../../domain/fleet/fleet-schema.ts";
import type { Fleet } from "../../domain/fleet/fleet.ts";
import { JOB_JSON_SCHEMA } from "../../domain/job/job-schema.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const textOf = (path: string): string => readFileSync(resolve(ROOT, path), "utf8");

function fleetAt(path: string): Fleet {
  const folder = dirname(path);
  const parsed = parseFleetYaml(textOf(path), {
    file: path,
    read: (named) => ({ kind: "text", text: textOf(resolve(ROOT, folder, named)) }),
  });
  if (parsed.kind === "refused") throw new Error(parsed.problems.map(formatProblem).join("\n"));
  return parsed.fleet;
}

describe("a published JSON Schema", () => {
  it.each([
    ["job", JOB_JSON_SCHEMA],
    ["fleet", FLEET_JSON_SCHEMA],
  ])("of %s files is the one that the parser uses (npm run schemas writes it)", (name, schema) => {
    expect(textOf(`schemas/${name}.schema.json`)).toBe(`${JSON.stringify(schema, null, 2)}\n`);
  });

  it.each([
    ["job", JOB_JSON_SCHEMA],
    ["fleet", FLEET_JSON_SCHEMA],
  ])("of %s files explains every key to an editor", (_, schema) => {
    const unexplained: string[] = [];
    const visit = (value: unknown, path: string): void => {
      if (typeof value !== "object" || value === null) return;
      for (const [key, inside] of Object.entries(value)) {
        if (key !== "properties") {
          visit(inside, `${path}/${key}`);
          continue;
        }
        for (const [name, property] of Object.entries(inside as object)) {
          const described = z.object({ description: z.string().min(1) }).safeParse(property);
          if (!described.success) unexplained.push(`${path}/${name}`);
          visit(property, `${path}/${name}`);
        }
      }
    };
    visit(schema, "");
    expect(unexplained).toEqual([]);
  });
});

describe("the fleets that Orbweaver brings", () => {
  it.each(["small", "demo"])("%s.yaml is right for editors and names its schema", (name) => {
    const text = textOf(`data/fleets/${name}.yaml`);
    expect(text).toMatch(
      /^# yaml-language-server: \$schema=\.\.\/\.\.\/schemas\/fleet\.schema\.json\n/,
    );
    const editor = z.fromJSONSchema(JSON.parse(textOf("schemas/fleet.schema.json")));
    expect(editor.safeParse(parse(text)).error).toBeUndefined();
  });

  it("the small one is one simulated cluster of two hosts with four GPUs", () => {
    const { name, shape } = fleetAt("data/fleets/small.yaml");
    expect(name).toBe("default");
    expect(
      shape.clusters.map(({ isSimulated, hosts }) => [
        isSimulated,
        hosts.map((host) => host.gpuCount),
      ]),
    ).toEqual([[true, [4, 4]]]);
  });

  it("the demo's has four measured H100 hosts in the US, eight A100 hosts in the EU, and nothing that is not simulated", () => {
    const { name, shape, details, interHost } = fleetAt("data/fleets/demo.yaml");
    expect(name).toBe("demo");
    expect(
      shape.clusters.map(({ id, jurisdiction, isSimulated, hosts }) => [
        id,
        jurisdiction,
        isSimulated,
        hosts.length,
        hosts[0]?.gpuType,
      ]),
    ).toEqual([
      ["h100", "US", true, 4, "H100"],
      ["a100", "EU", true, 8, "A100-80"],
    ]);
    expect([...details.keys()]).toEqual([
      "h100/h100-26",
      "h100/h100-27",
      "h100/h100-28",
      "h100/h100-29",
    ]);
    for (const { topology, bandwidth } of details.values()) {
      expect([topology?.gpuCount, bandwidth?.gpuCount]).toEqual([8, 8]);
      expect(bandwidth?.gbsByMask.filter((gbs) => gbs !== null)).toHaveLength(255 - 8);
    }
    const [sets] = interHost.values();
    expect(sets?.hosts).toEqual(["h100/h100-26", "h100/h100-27", "h100/h100-28", "h100/h100-29"]);
    expect(sets?.sets).toHaveLength(493);
  });

  it("the demo's link has the figures of the measured pair of regions", () => {
    const rows = textOf("data/wan/skyplane-aws-3-regions.csv")
      .split("\n")
      .map((row) => row.split(","));
    const { shape } = fleetAt("data/fleets/demo.yaml");
    const regions = new Map([
      ["h100", "aws:us-east-1"],
      ["a100", "aws:eu-west-1"],
    ]);
    expect(shape.links).toHaveLength(2);
    for (const link of shape.links) {
      const row =
        rows.find(([from, to]) => from === regions.get(link.from) && to === regions.get(link.to)) ??
        [];
      const [, , , receivedBps, , avgRttMs, , usd] = row;
      expect(link.bandwidthGbps).toBeCloseTo(Number(receivedBps) / 1e9, 3);
      expect(link.latencyMs).toBe(Number(avgRttMs));
      expect(link.usdPerGB).toBe(Number(usd));
    }
  });
});
