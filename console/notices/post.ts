/**
 * @file One POST to the address of a notice. Fails with a reason that has nothing of the address in it, which may be a secret.
 *
 * Redirects are not followed, because the body would go to whom nobody has named. What the name of a host stands for is judged where the connection is made,
 * so that no second look-up can find another address.
 */

import { lookup as lookUp, type LookupAddress } from "node:dns";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction } from "node:net";
import { withinTime } from "../../client/time-limit.ts";
import { isPublicAddress } from "./public-address.ts";

const PATIENCE_MS = 10_000;

export type LookUp = (
  host: string,
  options: { readonly all: true },
  done: (error: Error | null, found: LookupAddress[]) => void,
) => void;

export interface PostOptions {
  readonly headers?: Record<string, string>;
  readonly signal: AbortSignal;
  /** Its host's name must stand for public addresses alone. */
  readonly isPublic?: boolean;
  readonly lookUp?: LookUp;
}

/** Thrown before anything was sent. */
class NotPublic extends Error {}

export async function post(
  address: string,
  body: string,
  { headers = {}, signal, isPublic = false, lookUp: ask = lookUp }: PostOptions,
): Promise<void> {
  let status: number;
  try {
    const url = new URL(address);
    const ending = withinTime(PATIENCE_MS, signal);
    status = await new Promise<number>((resolve, reject) => {
      const send = url.protocol === "https:" ? httpsRequest : httpRequest;
      const request = send(url, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          "content-length": String(Buffer.byteLength(body)),
          ...headers,
        },
        agent: false,
        signal: ending,
        ...(isPublic && { lookup: publicOnly(ask) }),
      });
      request.on("error", reject);
      // Also without an error or an answer: a server that changes the protocol is cut off without either.
      request.on("close", () => reject(new Error("no answer")));
      request.on("response", (response) => {
        resolve(response.statusCode ?? 0);
        // Whatever it says is not wanted.
        response.destroy();
      });
      request.end(body);
    });
  } catch (error) {
    if (error instanceof NotPublic) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    const name = error instanceof Error ? error.name : "an error";
    throw new Error(`it cannot be reached (${code === "" ? name : code})`, { cause: error });
  }
  if (status < 200 || status > 299) throw new Error(`it answered with status ${status}`);
}

/** Finds only hosts all of whose addresses are public. */
const publicOnly =
  (ask: LookUp): LookupFunction =>
  (host, { all }, done) => {
    ask(host, { all: true }, (error, found) => {
      const [first] = found ?? [];
      if (error !== null || first === undefined)
        return done(error ?? new Error("no address"), "", 0);
      if (!found.every(({ address }) => isPublicAddress(address)))
        return done(
          new NotPublic(
            "its host's name stands for an address of a private network; a fleet file that means that says private: true",
          ),
          "",
          0,
        );
      if (all === true) done(null, found);
      else done(null, first.address, first.family);
    });
  };
