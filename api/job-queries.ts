/** @file What the routes about jobs take in their addresses: the filter of a list, and whole numbers. */

import { z } from "zod";
import { JOB_STATES } from "../client/index.ts";
import { parsedJson } from "../lib/parsed-json.ts";

const text = z.string().max(1_000).exactOptional();
/** The last instant that a date can say. */
const MOST_MS = 8.64e15;
const time = z.number().min(0).max(MOST_MS).exactOptional();

const filterSchema = z.strictObject({
  class: text,
  tenant: text,
  state: z.union([z.enum(JOB_STATES), z.array(z.enum(JOB_STATES))]).exactOptional(),
  cluster: text,
  user: text,
  isMine: z.literal(true).exactOptional(),
  labels: z.array(z.string().max(1_000)).max(100).exactOptional(),
  name: text,
  gpuType: text,
  submittedBeforeMs: time,
  submittedAfterMs: time,
  all: z.boolean().exactOptional(),
  limit: z.number().int().min(1).exactOptional(),
});
export const listQuery = z.strictObject({
  filter: z
    .string()
    .max(8_192)
    .transform((written, context) => {
      const found = filterSchema.safeParse(parsedJson(written));
      if (found.success) return found.data;
      context.addIssue({ code: "custom", message: z.prettifyError(found.error) });
      return z.NEVER;
    })
    .exactOptional()
    .meta({
      description: "JSON of the filter: class, tenant, state, user, isMine, labels, all, …",
    }),
});
/** A whole number from 0 on. */
export const whole = (most: number) =>
  z
    .string()
    .regex(/^\d{1,9}$/)
    .transform(Number)
    .refine((value) => value <= most, { error: `at most ${String(most)}` });
