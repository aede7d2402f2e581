/** @file The key `serve` of `job.yaml`: how an ONNX model without a command is served. */

import { z } from "zod";
import { duration, wholeNumber } from "../file/schema-leaf.ts";

export const serve = z
  .strictObject({
    port: wholeNumber({
      min: 1,
      max: 65_535,
      description: "Port of the service on its host. Default: a free one, which `status` names.",
      examples: [8000],
    }).optional(),
    maxBatch: wholeNumber({
      min: 1,
      max: 65_536,
      description: "Rows that may run together; 1 for none. Default: 8.",
      examples: [8],
    }).optional(),
    batchWindow: duration({
      description: "How long a request waits for others to run with. Default: 2ms.",
      examples: ["2ms"],
      isZeroAllowed: true,
    }).optional(),
    queue: wholeNumber({
      min: 1,
      max: 1_000_000,
      description: "Requests in line; more are answered with 429. Default: 64.",
      examples: [64],
    }).optional(),
  })
  .meta({
    description:
      "How the ONNX model of an inference job without a command is served: over HTTP, one thread for each GPU.",
    examples: [{ port: 8000, maxBatch: 8 }],
  });
