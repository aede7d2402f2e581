/** @file Errors of the system, which say by a code what was wrong. */

/** E.g. `ENOENT`. */
export const hasErrorCode = (error: unknown, code: string): boolean =>
  error instanceof Error && "code" in error && error.code === code;
