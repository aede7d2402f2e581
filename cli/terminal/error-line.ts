/** @file One line for an error, `error CODE: message`, and its exit status; never a stack trace. */

import { ApplicationFailure } from "@temporalio/common";
import { translated } from "../../client/index.ts";
import { FAILURE_CODES, type FailureCode } from "../../domain/values/codes.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { EXIT, exitCodeOfError } from "./exit-code.ts";
import { safeText } from "./safe-text.ts";

export interface ErrorAccount {
  /** A code of ours, or INTERNAL for an unexpected error. */
  readonly code: FailureCode | "INTERNAL";
  readonly message: string;
  readonly details?: unknown;
  readonly exitCode: number;
}

export function accountOf(thrown: unknown): ErrorAccount {
  const error = translated(thrown, "the request");
  if (error instanceof OrbweaverError) {
    const { code, message, details } = error;
    return {
      code,
      message,
      exitCode: exitCodeOfError(code),
      ...(details !== undefined && { details }),
    };
  }
  if (error instanceof ApplicationFailure && isFailureCode(error.type)) {
    return { code: error.type, message: error.message, exitCode: exitCodeOfError(error.type) };
  }
  const message = error instanceof Error ? error.message : String(error);
  return {
    code: "INTERNAL",
    message: `${message} (this is a bug of Orbweaver's; ORBWEAVER_DEBUG=1 shows where)`,
    exitCode: EXIT.failure,
  };
}

/** The line, with further lines of the message indented below it, safe for a terminal. */
export function errorLine({ code, message }: ErrorAccount): string {
  return safeText(`error ${code}: ${message.trimEnd().replaceAll("\n", "\n  ")}\n`);
}

function isFailureCode(type: string | null | undefined): type is FailureCode {
  const codes: readonly string[] = FAILURE_CODES;
  return typeof type === "string" && codes.includes(type);
}
