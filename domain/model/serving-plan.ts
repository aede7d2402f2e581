/**
 * @file How an ONNX model is served over the GPUs of one host: the parts that run together, their GPUs and their order.
 *
 * A JSON file, made for one model and number of GPUs, and read where the model runs. Operators are named by their
 * places in the model's file, as ranges, so that a plan of ten thousand of them stays small; the model's SHA-256 identifies its file.
 */

import { z } from "zod";

export interface ServingPlan {
  readonly model: { readonly name: string; readonly sha256: string };
  readonly gpus: number;
  /** Absent: threads of the host's processor. */
  readonly devices?: "cuda";
  /** In an order in which they can run; each GPU takes its own in this order. */
  readonly parts: readonly ServedPart[];
  /** The predicted time of one request, and of the model on one GPU alone. */
  readonly expectedMs?: number;
  readonly wholeMs?: number;
}

export interface ServedPart {
  /** Index within the lease's GPUs of the host, from 0. */
  readonly gpu: number;
  /** Places in the model's file, ascending. */
  readonly operators: readonly number[];
}

/** No host has more GPUs. */
const MAX_GPUS = 64;
/** Limit of operators in all parts together, above that of any model. */
const MAX_PLACES = 1_000_000;
/** Places and ranges of places in a plan's file: `0-14,17`. */
const RANGES = /^\d{1,7}(-\d{1,7})?(,\d{1,7}(-\d{1,7})?)*$/;

const planSchema = z.strictObject({
  version: z.literal(1),
  model: z.strictObject({ name: z.string().max(500), sha256: z.string().regex(/^[0-9a-f]{64}$/) }),
  gpus: z.number().int().min(1).max(MAX_GPUS),
  devices: z.literal("cuda").optional(),
  parts: z
    .array(z.strictObject({ gpu: z.number().int().min(0), operators: z.string().regex(RANGES) }))
    .min(1)
    .max(100_000),
  expectedMs: z.number().nonnegative().optional(),
  wholeMs: z.number().nonnegative().optional(),
});

export type ParsedServingPlan =
  | { readonly kind: "parsed"; readonly plan: ServingPlan }
  | { readonly kind: "refused"; readonly message: string };

export function parseServingPlan(
  text: string,
  { file }: { readonly file: string },
): ParsedServingPlan {
  const refused = (why: string): ParsedServingPlan => ({
    kind: "refused",
    message: `${file} is no serving plan: ${why}. Make it again: orbweaver serve --model FILE --gpus N --write-plan FILE.`,
  });
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    return refused(error instanceof Error ? error.message : String(error));
  }
  const result = planSchema.safeParse(value);
  if (!result.success) {
    const [issue] = result.error.issues;
    return refused(
      `${issue?.path.join(".") || "the whole"}: ${issue?.message ?? "not understood"}`,
    );
  }
  const { model, gpus, devices, parts, expectedMs, wholeMs } = result.data;
  const beyond = parts.findIndex(({ gpu }) => gpu >= gpus);
  if (beyond >= 0) return refused(`parts.${beyond}.gpu: there are ${gpus} GPUs, from 0`);
  let places = 0;
  const wide = parts.findIndex(({ operators }) => (places += spanOf(operators)) > MAX_PLACES);
  if (wide >= 0)
    return refused(`parts.${wide}.operators: more than ${MAX_PLACES} of them, with those before`);
  const read = parts.map(({ gpu, operators }) => ({ gpu, operators: placesOf(operators) }));
  return {
    kind: "parsed",
    plan: {
      model,
      gpus,
      ...(devices !== undefined && { devices }),
      parts: read,
      ...(expectedMs !== undefined && { expectedMs }),
      ...(wholeMs !== undefined && { wholeMs }),
    },
  };
}

export function servingPlanText(plan: ServingPlan): string {
  const { parts, ...rest } = plan;
  const rows = parts.map(({ gpu, operators }) => ({ gpu, operators: rangesOf(operators) }));
  return `${JSON.stringify({ version: 1, ...rest, parts: rows })}\n`;
}

/** The plan in one line, for `status`. */
export function servingPlanLine({ gpus, parts, devices, ...times }: ServingPlan): string {
  const { expectedMs, wholeMs } = times;
  const used = new Set(parts.map(({ gpu }) => gpu)).size;
  const all = gpus === 1 ? "1 GPU" : `${gpus} GPUs`;
  const among = used === gpus ? all : `${used} of ${all}`;
  const where = devices === "cuda" ? `${among} by CUDA` : among;
  const count = parts.length === 1 ? "whole" : `in ${parts.length} parts`;
  if (expectedMs === undefined) return `${count} on ${where}`;
  const alone = used > 1 && wholeMs !== undefined ? `; ${shownMs(wholeMs)} on one` : "";
  return `${count} on ${where}, ${shownMs(expectedMs)} a request expected${alone}`;
}

const shownMs = (ms: number): string => `${ms.toPrecision(3)} ms`;

const placesOf = (ranges: string): readonly number[] =>
  endsOf(ranges).flatMap(({ first, last }) =>
    Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at),
  );

const spanOf = (ranges: string): number =>
  endsOf(ranges).reduce((sum, { first, last }) => sum + Math.max(0, last - first + 1), 0);

/** A reversed range is empty. */
const endsOf = (ranges: string): readonly { readonly first: number; readonly last: number }[] =>
  ranges.split(",").map((range) => {
    const [first = 0, last = first] = range.split("-").map(Number);
    return { first, last };
  });

function rangesOf(places: readonly number[]): string {
  const ranges: { first: number; last: number }[] = [];
  for (const place of [...places].sort((a, b) => a - b)) {
    const open = ranges.at(-1);
    if (open !== undefined && place === open.last + 1) open.last = place;
    else ranges.push({ first: place, last: place });
  }
  return ranges
    .map(({ first, last }) => (first === last ? String(first) : `${first}-${last}`))
    .join(",");
}
