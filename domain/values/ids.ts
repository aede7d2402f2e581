/** @file The ids of Orbweaver's nouns and their constructors; every id is a non-empty string without white space. */

import { jsonStart } from "../../lib/json-size.ts";
import type { Brand } from "./brand.ts";

/** A job's id is its Temporal workflow id. */
export type JobId = Brand<string, "JobId">;
export type RunId = Brand<string, "RunId">;
export type TenantId = Brand<string, "TenantId">;
export type ClusterId = Brand<string, "ClusterId">;
/** `<cluster>/<host>`, unique in a fleet. */
export type HostId = Brand<string, "HostId">;
/** `lease-<token>`. */
export type LeaseId = Brand<string, "LeaseId">;
/** The ledger's own counter: grows with every grant of the fleet, so any two leases of one GPU are ordered. */
export type Token = Brand<number, "Token">;

export const jobId = (text: string): JobId => named("job id", text) as JobId;
export const runId = (text: string): RunId => named("run id", text) as RunId;
export const tenantId = (text: string): TenantId => named("tenant", text) as TenantId;
export const clusterId = (text: string): ClusterId => named("cluster", text) as ClusterId;
export const hostId = (cluster: string, host: string): HostId =>
  named("host", `${cluster}/${host}`) as HostId;
export const parseHostId = (text: string): HostId => named("host", text) as HostId;
export const token = (value: number): Token => {
  if (!Number.isSafeInteger(value) || value < 0)
    throw new RangeError(`token ${value} is not a count`);
  return value as Token;
};
export const leaseId = (ofToken: Token): LeaseId => `lease-${ofToken}` as LeaseId;
/** NaN of an id that no ledger gave. */
export const tokenOf = (lease: LeaseId): number => Number(lease.slice("lease-".length));

/** The cluster part of a host id. */
export const clusterOf = (host: HostId): ClusterId => clusterId(host.slice(0, host.indexOf("/")));

/** Order by code unit: the same on every machine, whatever its locale. */
export const byCodeUnit = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Whether the text can be an id. */
export const isWord = (text: string): boolean => text !== "" && !/\s/.test(text);

function named(what: string, text: string): string {
  if (!isWord(text)) {
    throw new RangeError(
      `${what} ${jsonStart(text, MESSAGE_CHARACTERS)} is empty or has white space`,
    );
  }
  return text;
}

/** Of a wrong id in a message: a client's connection breaks on answers of hundreds of kilobytes. */
const MESSAGE_CHARACTERS = 200;
