/**
 * @file The file of a fabric: how hosts, network cards, leaf and spine switches of one cluster are joined, and what may be wrong with them.
 *
 * A number that differs from cluster to cluster may be a range `[least, most]`; each seed draws it anew. Bandwidths are GB/s in one
 * direction, as collectives reach them and not as cables are sold. The file says nothing of how many hosts there are: the same fabric is
 * built at any size.
 */

import { z } from "zod";
import { jsonSchemaOf } from "../../domain/file/json-schema.ts";
import { readLocatedYaml } from "../../domain/file/located-yaml.ts";
import { asFileProblem, schemaProblems } from "../../domain/file/schema-problems.ts";
import { refuseFile, type RefusedFile } from "../../domain/values/file-problem.ts";

const range = <Bound extends z.ZodType<number, number>>(bound: Bound) =>
  z.union([bound, z.tuple([bound, bound])]);
const gbs = range(z.number().positive().finite());
const share = range(z.number().min(0).max(0.9));
const factor = range(z.number().positive().max(1));
const micros = range(z.number().nonnegative().finite());
const count = (most: number) => z.int().min(1).max(most);

const fabricSchema = z.strictObject({
  name: z.string().min(1).max(64),
  gpuType: z.string().min(1).max(64),
  /** `insideGbs`: the bus bandwidth of all GPUs of one host. */
  host: z.strictObject({ gpus: count(16), cards: count(16), cardGbs: gbs, insideGbs: gbs }),
  /** Hosts that one NVLink domain joins; absent: none. */
  nvlink: z.strictObject({ hosts: z.int().min(2).max(128), gbs }).optional(),
  /** `rails`: card c of all hosts below one set of leaf switches meets at leaf switch c. `shared`: all cards meet at one. */
  leaf: z.strictObject({
    hosts: count(256),
    wiring: z.enum(["rails", "shared"]),
    uplinks: count(256),
    uplinkGbs: gbs,
  }),
  /** Queue pairs of a connection, each of which takes an uplink by hash; `even`: switches spread packets over all uplinks. */
  paths: z.union([count(64), z.literal("even")]),
  collective: z.strictObject({
    /** Rings or trees that run side by side between hosts, at most. */
    channels: count(64),
    /** Of the ideal, what trees reach. */
    treeShare: factor,
    messageMiB: count(16_384),
    /** For one step inside a host, and between hosts. */
    insideUs: micros,
    betweenUs: micros,
  }),
  /** Cards that are slow, and what is left of their bandwidth. */
  slowCards: z.strictObject({ share, to: factor }),
  /** Uplinks that are down, those that are slow, and what is left of these. */
  uplinkFaults: z.strictObject({ down: share, slow: share, to: factor }),
  /** Of its time, what a gang that runs beside spends communicating. */
  neighbours: z.strictObject({ share: range(z.number().min(0).max(1)) }),
});

export type FabricSpec = z.infer<typeof fabricSchema>;
/** A number, or what each seed draws from. */
export type Drawn = number | readonly [number, number];

const FABRIC_JSON_SCHEMA = jsonSchemaOf(fabricSchema);

export type ParsedFabricFile = { readonly kind: "parsed"; readonly spec: FabricSpec } | RefusedFile;

export function parseFabricFile(
  text: string,
  { file }: { readonly file: string },
): ParsedFabricFile {
  const yaml = readLocatedYaml(text, file);
  if (!yaml.isSound) return refuseFile(yaml.problems);
  const result = fabricSchema.safeParse(yaml.value);
  const problems = result.success
    ? rangeProblems(result.data, [])
    : schemaProblems(result.error.issues, { value: yaml.value, schema: FABRIC_JSON_SCHEMA });
  if (!result.success || problems.length + yaml.problems.length > 0)
    return refuseFile([
      ...yaml.problems,
      ...problems.map((problem) => asFileProblem(problem, { file, yaml })),
    ]);
  return { kind: "parsed", spec: result.data };
}

/** Ranges the wrong way round. */
function rangeProblems(
  value: unknown,
  path: readonly (string | number)[],
): ReturnType<typeof schemaProblems> {
  if (Array.isArray(value)) {
    const [least, most] = value.map(Number);
    if (least === undefined || most === undefined || least <= most) return [];
    return [
      {
        path: [...path],
        part: "value",
        value,
        message: "the range ends below its start",
        remedy: `Write [${String(most)}, ${String(least)}].`,
      },
    ];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => rangeProblems(each, [...path, key]));
}
