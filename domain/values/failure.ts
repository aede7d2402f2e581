/**
 * @file The error that Orbweaver throws to its callers outside activities: a code, a message for people, plain-data details.
 *
 * Inside activities and workflows the same codes travel as the `type` of application failures.
 */

import type { FailureCode } from "./codes.ts";

export class OrbweaverError extends Error {
  override readonly name = "OrbweaverError";
  readonly code: FailureCode;
  /** Plain data that belongs to the code, e.g. `{ problems: [...] }`; undefined when the message says it all. */
  readonly details: unknown;

  constructor(code: FailureCode, message: string, options?: OrbweaverErrorOptions) {
    super(message, options?.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.details = options?.details;
  }
}

export interface OrbweaverErrorOptions {
  readonly details?: unknown;
  readonly cause?: unknown;
}
