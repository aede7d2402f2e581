/** @file Certificate and key of a service that listens, from files that the command line names. */

import type { Command } from "commander";
import { X509Certificate } from "node:crypto";
import { resolve } from "node:path";
import { createSecureContext } from "node:tls";
import type { ServedTls } from "../../access/listener.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import { isLoopback, textOf } from "./token-file.ts";

export interface TlsValues {
  readonly cert?: string;
  readonly key?: string;
  /** Of a service that asks for client certificates. */
  readonly clientCa?: string;
  readonly clientCrl?: string;
}

export const addTlsOptions = (verb: Command): Command =>
  verb
    .option("--cert <file>", "serve HTTPS with this certificate")
    .option("--key <file>", "the certificate's key");

/** Undefined for plain HTTP. Throws BAD_INPUT where one of the two lacks, or cannot be read. */
export function tlsOf(values: TlsValues, cwd: string): ServedTls | undefined {
  const { cert, key, clientCa, clientCrl } = values;
  if (clientCrl !== undefined && clientCa === undefined)
    throw new OrbweaverError(
      "BAD_INPUT",
      "--client-crl says what the authorities of --client-ca have revoked. Give --client-ca FILE, too.",
    );
  if (cert === undefined && key === undefined && clientCa === undefined) return undefined;
  if (cert === undefined || key === undefined)
    throw new OrbweaverError("BAD_INPUT", "HTTPS needs both. Give --cert FILE and --key FILE.");
  return {
    ...{ cert: textOf(resolve(cwd, cert)), key: textOf(resolve(cwd, key)) },
    ...(clientCa !== undefined && { clientCa: authorities(resolve(cwd, clientCa)) }),
    ...(clientCrl !== undefined && { clientCrl: revocations(resolve(cwd, clientCrl)) }),
  };
}

/** A list of revoked certificates. Throws BAD_INPUT for what OpenSSL reads none in. */
export function revocations(file: string): string {
  const text = textOf(file);
  try {
    createSecureContext({ crl: text });
  } catch (error) {
    const message = `${file} has no list of revoked certificates in PEM (--client-crl)`;
    throw new OrbweaverError("BAD_INPUT", message, { cause: error });
  }
  return text;
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
