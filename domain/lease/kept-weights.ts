/**
 * @file What a host keeps in its memory of models that were served there, as its agent tells it with heartbeats, and for which services.
 *
 * A service is a tenant and the name of its jobs: all replicas of one have it, and so has a job that is moved or started again. It is told as two hashes.
 */

import { isFields } from "../../lib/fields.ts";
import { textHash } from "../../lib/text-hash.ts";
import type { HostId } from "../values/ids.ts";
import { toldByHost } from "./told-by-host.ts";

export interface KeptWeights {
  readonly models: number;
  readonly bytes: number;
  /** The most that it keeps. */
  readonly budgetBytes: number;
  /** Marks of the services that used them, at most `MOST_SERVICES`; absent from an agent of a former release. */
  readonly services?: readonly string[];
}

/** Of one host, the last ones that used them. */
export const MOST_SERVICES = 64;
const MARK_DIGITS = 16;

/** Of a tenant, or of the name of a job. */
export const wordMark = (word: string): string => textHash(word).slice(0, MARK_DIGITS);

export interface ServiceName {
  readonly tenant: string;
  /** Of its jobs. */
  readonly name: string;
}

export const serviceMark = ({ tenant, name }: ServiceName): string =>
  `${wordMark(tenant)}-${wordMark(name)}`;

/** A host that keeps weights of these services. */
export interface WeightsKeeper {
  readonly host: HostId;
  readonly services: readonly string[];
}

const AMOUNTS = ["models", "bytes", "budgetBytes"] as const;

/** The hosts that keep weights of a service's model in their memory; undefined where none is known. */
export type KeepersOf = (service: ServiceName) => ReadonlySet<HostId> | undefined;

/** Hosts by the marks of services. */
export function keepersByService(keepers: readonly WeightsKeeper[]): KeepersOf {
  const found = new Map<string, Set<HostId>>();
  for (const { host, services } of keepers)
    for (const mark of services) {
      const hosts = found.get(mark) ?? new Set<HostId>();
      found.set(mark, hosts.add(host));
    }
  return (service) => found.get(serviceMark(service));
}

export const readKeptWeights = (details: unknown): ReadonlyMap<HostId, KeptWeights> =>
  toldByHost(details, "weights", (said) => {
    if (!isFields(said)) return undefined;
    const [models, bytes, budgetBytes] = AMOUNTS.map((name) => said[name]);
    return isAmount(models) && isAmount(bytes) && isAmount(budgetBytes)
      ? { models, bytes, budgetBytes, ...services(said["services"]) }
      : undefined;
  });

const services = (said: unknown): Pick<KeptWeights, "services"> =>
  Array.isArray(said)
    ? { services: said.slice(0, MOST_SERVICES).filter((each): each is string => isMark(each)) }
    : {};

const isMark = (value: unknown): boolean =>
  typeof value === "string" && /^[0-9a-f]{16}-[0-9a-f]{16}$/.test(value);

const isAmount = (value: unknown): value is number =>
  typeof value === "number" && Number.isSafeInteger(value) && value >= 0;
