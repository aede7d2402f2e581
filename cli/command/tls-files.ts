/** @file Certificate and key of a service that listens, from files that the command line names. */

import type { Command } from "commander";
import { X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import type { ServedTls } from "../../access/listener.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { isLoopback, textOf } from "./token-file.ts";

export interface TlsValues {
  readonly cert?: string;
  readonly key?: string;
  /** Of a service that asks for client certificates. */
  readonly clientCa?: string;
}

export const addTlsOptions = (verb: Command): Command =>
  verb
    .option("--cert <file>", "serve HTTPS with this certificate")
    .option("--key <file>", "the certificate's key");

/** Undefined for plain HTTP. Throws BAD_INPUT where one of the two lacks, or cannot be read. */
export function tlsOf({ cert, key, clientCa }: TlsValues, cwd: string): ServedTls | undefined {
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined;
  if (cert === undefined || key === undefined)
    throw new OrbweaverError("BAD_INPUT", "HTTPS needs both. Give --cert FILE and --key FILE.");
  return {
    ...{ cert: textOf(resolve(cwd, cert)), key: textOf(resolve(cwd, key)) },
    ...(clientCa !== undefined && { clientCa: authorities(resolve(cwd, clientCa)) }),
  };
}

/** With none in it everybody would be asked for a certificate, and nobody's believed. */
function authorities(file: string): string {
  const text = textOf(file);
  try {
    new X509Certificate(text);
  } catch (error) {
    const message = `${file} has no certificate of an authority in PEM (--client-ca)`;
    throw new OrbweaverError("BAD_INPUT", message, { cause: error });
  }
  return text;
}

/** Throws BAD_INPUT where tokens would cross a network in clear. `plain`: a proxy in front encrypts. */
export function refuseClearTokens({
  host,
  cert,
  plain,
}: TlsValues & { readonly host: string; readonly plain?: boolean }): void {
  if (cert !== undefined || plain === true || isLoopback(host)) return;
  throw new OrbweaverError(
    "BAD_INPUT",
    `with --host ${host} tokens would cross the network in clear. Add --cert FILE and --key FILE, or --plain if a proxy in front encrypts.`,
  );
}
