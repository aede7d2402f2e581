/** @file Laws of fleet files: what is written reads back, every mutation is named, nothing from outside makes the parser throw. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import {
  latencyText,
  memoryText,
  powerText,
  priceText,
  rateText,
} from "../../domain/values/dimensions.ts";
import { parseFleetYaml, type FleetFile, type HostEntry } from "../../domain/fleet/fleet-file.ts";
import { FLEET_JSON_SCHEMA } from "../../domain/fleet/fleet-schema.ts";
import { hostYaml } from "../../domain/fleet/fleet-yaml.ts";
import { GPU_TYPES } from "../../domain/values/gpu-types.ts";
import { expandHosts } from "../../domain/values/host-range.ts";
import {
  fleetOf,
  parseFile,
  parseText,
  problemsOf,
  SMALL_FLEET,
  topologyText,
  yamlProblems,
} from "./fleet-text.ts";
import { caseCount } from "../support/case-count.ts";

const word = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._-]{0,8}$/);
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined, freq: 2 });
const gib = fc.integer({ min: 1, max: 1024 }).map(memoryText);
const watts = fc.integer({ min: 1, max: 2000 }).map(powerText);

const host = fc.record({
  name: fc.oneof(
    word,
    word.map((name) => `${name}-[08-11]`),
  ),
  gpus: fc.integer({ min: 1, max: 30 }),
  type: fc.constantFrom(...GPU_TYPES),
  memory: maybe(gib),
  watts: maybe(watts),
  rack: maybe(word),
});

const fleetFile = fc
  .record({
    name: maybe(word),
    clusters: fc.uniqueArray(
      fc.record({
        name: word,
        site: word,
        jurisdiction: word,
        fabric: maybe(fc.record({ bandwidth: fc.integer({ min: 1, max: 10_000 }).map(rateText) })),
        power: maybe(fc.integer({ min: 2000, max: 1e6 }).map(powerText)),
        simulated: maybe(fc.boolean()),
        hosts: fc.uniqueArray(host, {
          minLength: 1,
          maxLength: 4,
          selector: ({ name }) => name.split("-[")[0],
        }),
      }),
      { minLength: 2, maxLength: 3, selector: ({ name }) => name },
    ),
    link: fc.record({
      bandwidth: fc.integer({ min: 1, max: 1e6 }).map((mbps) => rateText(mbps / 1e3)),
      latency: fc.integer({ min: 0, max: 1e9 }).map((ns) => latencyText(ns / 1e6)),
      price: maybe(fc.integer({ min: 0, max: 1e6 }).map((micro) => priceText(micro / 1e6))),
    }),
    tenants: maybe(
      fc.uniqueArray(
        fc.record({
          name: word,
          weight: maybe(fc.integer({ min: 1, max: 10 })),
          quota: maybe(fc.record({ "*": fc.nat(100) })),
          borrowing: maybe(fc.nat(64)),
        }),
        { maxLength: 3, selector: ({ name }) => name },
      ),
    ),
  })
  .map(({ link, ...file }): FleetFile => {
    const [first, second] = file.clusters;
    const between = [first?.name ?? "", second?.name ?? ""];
    // Absent keys are absent, as in any file.
    return JSON.parse(JSON.stringify({ ...file, links: [{ between, ...link }] }));
  });

describe("fleet files obey", () => {
  it("what is written is read back, and means the same as the same in JSON", () => {
    fc.assert(
      fc.property(fleetFile, (file) => {
        const { shape } = fleetOf(file);
        expect(parseFile(file)).toMatchObject({ kind: "parsed", fleet: { shape } });
        const wanted = file.clusters.map(({ name, hosts }) => ({
          name,
          hosts: hosts.flatMap((each) => namesOf(each)),
        }));
        expect(
          shape.clusters.map(({ id, hosts }) => ({
            name: id,
            hosts: hosts.map((each) => each.id.slice(id.length + 1)),
          })),
        ).toEqual(wanted);
        expect(shape.links).toHaveLength(2);
      }),
      { numRuns: caseCount(60) },
    );
  });

  it("a host that is written as an entry fits under the hosts of a cluster", () => {
    const texts = { "t o: p.txt": topologyText(3) };
    fc.assert(
      fc.property(fc.array(host, { minLength: 1, maxLength: 3 }), (hosts) => {
        const entries = hosts.map((entry, index): HostEntry => {
          const {
            memory,
            watts: draw,
            rack,
            ...rest
          } = { ...entry, name: `n${index}`, gpus: 3, topology: "t o: p.txt" };
          return {
            ...rest,
            ...(memory !== undefined && { memory }),
            ...(draw !== undefined && { watts: draw }),
            ...(rack !== undefined && { rack }),
          };
        });
        const head = "clusters:\n  - name: c\n    site: s\n    jurisdiction: EU\n    hosts:\n";
        const parsed = parseText(head + hostYaml(entries, 6), texts);
        const cluster = { name: "c", site: "s", jurisdiction: "EU", hosts: entries };
        expect(parsed).toEqual({ kind: "parsed", fleet: fleetOf({ clusters: [cluster] }, texts) });
      }),
      { numRuns: caseCount(60) },
    );
  });

  it("a fleet that the parser reads is right for editors too", () => {
    const editor = z.fromJSONSchema(JSON.parse(JSON.stringify(FLEET_JSON_SCHEMA)));
    fc.assert(
      fc.property(fleetFile, (file) => {
        expect(editor.safeParse(file).error).toBeUndefined();
      }),
      { numRuns: caseCount(40) },
    );
    expect(editor.safeParse({ ...SMALL_FLEET, tenant: [] }).success).toBe(false);
  });

  it("every key that is renamed is named, with its path", () => {
    for (const path of keyPaths(SMALL_FLEET)) {
      const key = String(path.at(-1));
      const renamed = changed(SMALL_FLEET, path, (map) => {
        const { [key]: value, ...rest } = map;
        return { ...rest, [`${key}x`]: value };
      });
      expect(problemsOf(renamed).join("\n")).toContain(`${textOf(path)}x: unknown key`);
    }
  });

  it("every value that is replaced by what it cannot be is named", () => {
    for (const path of keyPaths(SMALL_FLEET)) {
      const key = String(path.at(-1));
      const broken = changed(SMALL_FLEET, path, (map) => ({ ...map, [key]: [{ not: "this" }] }));
      expect(problemsOf(broken).some((problem) => problem.startsWith(textOf(path)))).toBe(true);
    }
  });

  it("no value in any place makes the parser throw", () => {
    const paths = keyPaths(SMALL_FLEET);
    fc.assert(
      fc.property(fc.constantFrom(...paths), fc.jsonValue(), (path, value) => {
        const file = changed(SMALL_FLEET, path, (map) => ({
          ...map,
          [String(path.at(-1))]: value,
        }));
        expect(["parsed", "refused"]).toContain(parseFile(file).kind);
      }),
      { numRuns: caseCount(300) },
    );
  });

  it("no text makes the parser throw, whatever the named files hold", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.string({ unit: "binary" }), (text, inside) => {
        expect(yamlProblems(text).length).toBeGreaterThan(0);
        const hosts = [{ name: "h", gpus: 2, type: "H100", topology: "a", bandwidth: "b" }];
        const [eu] = SMALL_FLEET.clusters;
        const named = JSON.stringify({ clusters: [{ ...eu, hosts }] });
        const read = () => ({ kind: "text", text: inside }) as const;
        expect(parseFleetYaml(named, { file: "fleet.yaml", read }).kind).toBe("refused");
      }),
      { numRuns: caseCount(200) },
    );
  });
});

type JsonMap = Readonly<Record<string, unknown>>;
type Path = readonly (string | number)[];

const namesOf = ({ name }: HostEntry): readonly string[] => {
  const expanded = expandHosts(name);
  return expanded.kind === "read" ? expanded.value : [];
};

/** Of every key in the first entry of each list. */
function keyPaths(value: object, above: Path = []): Path[] {
  return Object.entries(value).flatMap(([key, inside]) => {
    const path = [...above, key];
    const [first]: unknown[] = Array.isArray(inside) ? inside : [];
    return typeof first === "object" && first !== null
      ? [path, ...keyPaths(first, [...path, 0])]
      : [path];
  });
}

function changed(value: object, path: Path, change: (map: JsonMap) => JsonMap): object {
  const [step, ...rest] = path;
  if (step === undefined || rest.length === 0) return change({ ...value });
  const inside: unknown = Reflect.get(value, step);
  const within = changed(typeof inside === "object" && inside !== null ? inside : {}, rest, change);
  return Array.isArray(value)
    ? value.map((each, index) => (index === step ? within : each))
    : { ...value, [step]: within };
}

const textOf = (path: Path): string =>
  path
    .map((step, at) => (typeof step === "number" ? `[${step}]` : at === 0 ? step : `.${step}`))
    .join("");
