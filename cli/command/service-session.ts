/**
 * @file How a verb reaches its fleet: by a submit service where one is configured, else by Temporal.
 *
 * `--api` or ORBWEAVER_API: an http or https address, or `unix:PATH`; a folder there stands for the caller's own socket in it. ORBWEAVER_API_TOKEN, or the
 * file that ORBWEAVER_API_TOKEN_FILE names, is the bearer token; ORBWEAVER_API_CERT_FILE and ORBWEAVER_API_KEY_FILE name a client certificate and its key.
 */

import { statSync } from "node:fs";
import { join, resolve } from "node:path";
import { userName } from "../../access/own-identity.ts";
import {
  openServiceClient,
  type ClientCertificate,
  type FleetClient,
  type ServiceAddress,
} from "../../client/index.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { Io } from "../terminal/io.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import { fleetNamed } from "./fleet-name.ts";
import type { Session } from "./session.ts";
import { readToken, textOf } from "./token-file.ts";

/** What verbs need that a submit service can do, too. */
export interface FleetSession {
  readonly fleet: string;
  readonly client: FleetClient;
  /** Absent where a submit service stands between: Temporal is not reached. */
  readonly direct?: Session;
}

/** Undefined where none is configured. Throws BAD_INPUT for what is no address. */
export function configuredService(
  values: ConnectionOptionValues,
  { env, cwd }: Pick<Io, "env" | "cwd">,
): ServiceAddress | undefined {
  const said = values.api ?? env["ORBWEAVER_API"];
  if (said === undefined || said === "") return undefined;
  if (said.startsWith("unix:"))
    return { socket: socketAt(resolve(cwd, said.slice("unix:".length))) };
  const url = URL.canParse(said) ? new URL(said) : undefined;
  if (url?.protocol !== "https:" && url?.protocol !== "http:")
    throw new OrbweaverError(
      "BAD_INPUT",
      `${JSON.stringify(said)} is no address of a submit service. Write https://HOST:PORT or unix:PATH (--api, ORBWEAVER_API).`,
    );
  const file = env["ORBWEAVER_API_TOKEN_FILE"];
  const token =
    file === undefined || file === "" ? env["ORBWEAVER_API_TOKEN"] : readToken(file, cwd);
  const certificate = clientCertificate({ env, cwd });
  return {
    url,
    ...(token !== undefined && token !== "" && { token }),
    ...(certificate !== undefined && { certificate }),
  };
}

/** Undefined where none is named. Throws BAD_INPUT for one without its key, or that cannot be read. */
export function clientCertificate({
  env,
  cwd,
}: Pick<Io, "env" | "cwd">): ClientCertificate | undefined {
  const [cert = "", key = ""] = [env[CERT_FILE], env[KEY_FILE]];
  if (cert === "" && key === "") return undefined;
  if (cert === "" || key === "")
    throw new OrbweaverError(
      "BAD_INPUT",
      `a client certificate needs its key. Set both ${CERT_FILE} and ${KEY_FILE}.`,
    );
  return { cert: textOf(resolve(cwd, cert)), key: textOf(resolve(cwd, key)) };
}

export const CERT_FILE = "ORBWEAVER_API_CERT_FILE";
export const KEY_FILE = "ORBWEAVER_API_KEY_FILE";

export function serviceSession(
  address: ServiceAddress,
  values: ConnectionOptionValues,
  io: Io,
): FleetSession {
  const fleet = fleetNamed(values, io.env);
  return { fleet, client: openServiceClient(address, fleet) };
}

function socketAt(path: string): string {
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  return isFolder ? join(path, `${userName()}.sock`) : path;
}
