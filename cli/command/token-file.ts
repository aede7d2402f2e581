/**
 * @file Who may ask a service: the token that clients must show, from a file, because a command line would show it to every user of the machine.
 * An address that others reach needs one.
 */

import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { OrbweaverError } from "../../domain/values/failure.ts";

export function readToken(file: string, cwd: string): string {
  const token = textOf(resolve(cwd, file)).trim();
  if (token !== "") return token;
  throw new OrbweaverError("BAD_INPUT", `${file} is empty. Put a token into it.`);
}

/** The text of a file that the command line names. */
export function textOf(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (error) {
    const found = error instanceof Error ? error.message : String(error);
    throw new OrbweaverError("BAD_INPUT", `a file cannot be read: ${found}`, { cause: error });
  }
}

export interface ServedAddress {
  readonly host: string;
  readonly tokenFile?: string;
  readonly anyone?: boolean;
}

/** Throws BAD_INPUT where strangers could do `what`. `files`: the options that keep them out. */
export function refuseStrangers(
  { host, tokenFile, anyone }: ServedAddress,
  what: string,
  files = "--token-file FILE",
): void {
  if (isLoopback(host) || tokenFile !== undefined || anyone === true) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `with --host ${host} every user who reaches this machine could ${what}. Add ${files}, or --anyone if a proxy in front checks access.`,
  );
}

/** Whether only this machine reaches the address. */
export const isLoopback = (host: string): boolean =>
  host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
