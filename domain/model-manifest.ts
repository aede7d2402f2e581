/**
 * @file What a version of a cluster's bandwidth model says of itself: made when, from what, how well it does on what it was not
 * shown, whether it may serve, and which files it is. Bandwidths are GB/s of bus bandwidth as nccl-tests prints it.
 */

import { z } from "zod";

/** How far off a model is on samples that it was not trained with. */
const holdoutScore = z.object({
  /** Mean of |predicted − measured| ÷ measured, 1 = 100 %. */
  mape: z.number(),
  samples: z.number().int(),
});

const modelManifest = z.object({
  /** Of this description. */
  format: z.literal(1),
  /** `v` and a number that grows from version to version of the cluster. */
  version: z.string().regex(/^v\d{1,9}$/),
  fleet: z.string(),
  cluster: z.string(),
  createdAtMs: z.number(),
  /** The version that it was fine-tuned from; absent when it was trained from nothing. */
  parent: z.string().exactOptional(),
  seed: z.number().int(),
  samples: z.object({
    count: z.number().int(),
    /** SHA-256 of the samples, in order. */
    hash: z.string(),
  }),
  /** What the training said of itself, by name. */
  metrics: z.record(z.string(), z.number()),
  holdout: z.object({
    own: holdoutScore,
    /** The version that served then, on the same samples. */
    serving: holdoutScore.extend({ version: z.string() }).exactOptional(),
    /** A guess by the mean of equal GPU counts, on the same samples: what a model has to beat to be one. */
    plain: holdoutScore,
  }),
  /** Whether it may serve, and why. */
  gate: z.object({ holds: z.boolean(), reason: z.string() }),
  /** The hosts whose tables it was trained with. */
  hosts: z.array(
    z.object({
      id: z.string(),
      gpuCount: z.number().int(),
      gpuType: z.string(),
      rack: z.string().exactOptional(),
    }),
  ),
  /** Hash of the fleet's measured tables then. */
  detailsHash: z.string().exactOptional(),
  /** Which learner made it; one that is not known any more cannot be opened. */
  learner: z.string(),
  files: z.array(
    z.object({ name: z.string(), bytes: z.number().int(), sha256: z.string().length(64) }),
  ),
  /** What it was made for: the same order done twice makes one version. */
  order: z.string(),
});

export type ModelManifest = z.infer<typeof modelManifest>;
export type HoldoutScore = z.infer<typeof holdoutScore>;

/** Which version serves, and which ones did before, the newest last. */
const servingNote = z.object({
  format: z.literal(1),
  version: z.string(),
  /** Counts what was published, rollbacks included. */
  generation: z.number().int().positive(),
  publishedAtMs: z.number(),
  former: z.array(z.string()),
  /** The order that it was published by: done twice it counts once. */
  order: z.string(),
});

export type ServingNote = z.infer<typeof servingNote>;

/** What a file holds, or what is wrong with it. */
export type ReadNote<Note> =
  | { readonly kind: "read"; readonly note: Note }
  | { readonly kind: "wrong"; readonly problem: string };

export const readManifest = (value: unknown): ReadNote<ModelManifest> => read(modelManifest, value);
export const readServingNote = (value: unknown): ReadNote<ServingNote> => read(servingNote, value);

function read<Note>(schema: z.ZodType<Note>, value: unknown): ReadNote<Note> {
  const parsed = schema.safeParse(value);
  if (parsed.success) return { kind: "read", note: parsed.data };
  const [issue] = parsed.error.issues;
  const problem = issue === undefined ? "" : ` at ${issue.path.join(".")}: ${issue.message}`;
  return { kind: "wrong", problem };
}
