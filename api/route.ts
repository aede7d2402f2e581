/** @file A route of the submit service: its place, what it takes, and what it does. */

import type { Client } from "@temporalio/client";
import type { ServerResponse } from "node:http";
import type { z } from "zod";
import type { Identity } from "../access/own-identity.ts";
import type { Principal, Rights } from "../access/principal.ts";
import type { RevokedOrders } from "../access/revoked-orders.ts";
import type { OrbweaverClient } from "../client/index.ts";
import { OrbweaverError } from "../domain/values/failure.ts";

export interface Caller {
  readonly principal: Principal;
  readonly rights: Rights;
}

/** What the routes work on. */
export interface ServedFleet {
  readonly fleet: string;
  readonly temporal: Client;
  readonly client: OrbweaverClient;
  /** By which jobs of this principal are signed, in its name. */
  readonly signerOf: (principal: Principal) => Identity;
  /** Keys of the service and of its owner, whose signatures name a job's submitter. */
  readonly ownKeys: () => readonly string[];
  readonly ownIdentity: () => Identity;
  readonly apiIdentity: () => Identity;
  readonly revoked: RevokedOrders;
}

export interface Call<Query = unknown, Body = unknown> {
  readonly caller: Caller;
  readonly served: ServedFleet;
  /** The part of the path that `{job}` or `{cron}` stands for; empty where the path has none. */
  readonly job: string;
  readonly query: Query;
  readonly body: Body;
  /** Writes that the order was accepted, before it is carried out; `job` is what it names where the path does not. */
  readonly accept: (job?: string) => void;
  /** The caller has gone. */
  readonly gone: AbortSignal;
}

export interface OrderNote {
  readonly about?: string;
  readonly what?: string;
}

export interface Route {
  readonly method: "GET" | "POST";
  readonly path: string;
  /** Also the name of what was asked, in the audit. */
  readonly id: string;
  readonly summary: string;
  readonly query?: z.ZodType;
  readonly body?: z.ZodType;
  /** For the audit: what an order names where its path does not, and what it asks for. */
  readonly note?: (body: unknown) => OrderNote;
  /** A streamed answer writes lines of JSON itself. */
  readonly isStream?: true;
  /** Called after `query` and `body` were parsed. */
  readonly answer: (call: Call, response: ServerResponse) => Promise<unknown>;
}

/** A route whose handler knows the types of its query and body. */
export function route<Query extends z.ZodType, Body extends z.ZodType>(
  of: Omit<Route, "query" | "body" | "note" | "answer"> & {
    readonly query?: Query;
    readonly body?: Body;
    readonly note?: (body: z.output<Body>) => OrderNote;
    readonly answer: (
      call: Call<z.output<Query>, z.output<Body>>,
      response: ServerResponse,
    ) => Promise<unknown>;
  },
): Route {
  // The server parses both by these schemas before it calls the handler.
  return { ...of, answer: of.answer as Route["answer"] } as Route;
}

/** `job` of `/v1/jobs/{job}`; undefined where the path names nothing. */
export const nameIn = (path: string): string | undefined => /\{(\w+)\}/.exec(path)?.[1];

/** Of an order that spares nothing, in the audit. */
export const FORCED = "by force";

/** The caller has no right to this. */
export class AccessRefusal extends OrbweaverError {
  constructor(message: string) {
    super("NOT_ALLOWED", message);
  }
}

/** Throws AccessRefusal with the reason; passes where there is none. */
export function insist(refusal: string | undefined): void {
  if (refusal !== undefined) throw new AccessRefusal(refusal);
}
