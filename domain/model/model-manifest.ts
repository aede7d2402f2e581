/**
 * @file The manifest of one version of a cluster's bandwidth model: its date, data, errors on held-out samples, permission to
 * serve, and files. Bandwidths are GB/s of bus bandwidth as nccl-tests prints it.
 */

import { z } from "zod";

/** The error of a model on held-out samples. */
const holdoutScore = z.object({
  /** Mean of |predicted − measured| ÷ measured, 1 = 100 %. */
  mape: z.number(),
  samples: z.number().int(),
});

const modelManifest = z.object({
  /** The hash of this description. */
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
  /** Figures of the training, by name. */
  metrics: z.record(z.string(), z.number()),
  holdout: z.object({
    own: holdoutScore,
    /** The version that served at that time, on the same samples. */
    serving: holdoutScore.extend({ version: z.string() }).exactOptional(),
    /** The mean of sets with equal GPU counts, on the same samples: the baseline that a model must beat. */
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
  /** The learner that made it; a version of an unknown learner cannot be opened. */
  learner: z.string(),
  files: z.array(
    z.object({ name: z.string(), bytes: z.number().int(), sha256: z.string().length(64) }),
  ),
  /** The order that it was made for: repeating an order makes one version. */
  order: z.string(),
});

export type ModelManifest = z.infer<typeof modelManifest>;
export type HoldoutScore = z.infer<typeof holdoutScore>;

/** The serving version and its predecessors, the newest last. */
const servingNote = z.object({
  format: z.literal(1),
  version: z.string(),
  /** Counts publications, rollbacks included. */
  generation: z.number().int().positive(),
  publishedAtMs: z.number(),
  former: z.array(z.string()),
  /** The order that published it: a repeated order counts once. */
  order: z.string(),
});

export type ServingNote = z.infer<typeof servingNote>;

/** The content of a file, or its problem. */
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
