/**
 * @file Who may have how much of the fleet's intake: guaranteed shares of tenants, places of each class inside them, and a common rest.
 *
 * A pool of size S keeps G = `GUARANTEED_SHARE` · S apart. Each tenant that the fleet file names has the part  G · weight / Σ weights,  and all
 * other tenants together have one such part with weight 1. Of a tenant's part each class has `CLASS_SHARE` for itself; the rest serves all its
 * classes. What a class uses beyond its own counts against the tenant's rest, what a tenant uses beyond that against the common rest
 * S − G. So neither a tenant nor a class can take what is guaranteed to another, and one class of one tenant can have more than
 * (1 − G/S) · S.
 * Cost: O(requests) from scratch, O(1) a change. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { DEFAULT_PLACES, type FleetShape } from "../../../domain/fleet/fleet.ts";
import { JOB_CLASSES, type JobClass } from "../../../domain/job/job.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import { OTHER_TENANTS, type LobbyAccount } from "../intake.ts";

const GUARANTEED_SHARE = 0.25;
const CLASS_SHARE = 0.25;
const SMALL_COUNT = 16;

interface Share {
  /** For each class alone. */
  readonly own: number;
  /** For all classes of the tenant. */
  readonly rest: number;
}

export interface Pool {
  readonly shares: ReadonlyMap<TenantId, Share>;
  /** For all tenants. */
  readonly common: number;
  readonly used: Map<TenantId, Record<JobClass, number>>;
  /** Part of `common` that is in use. */
  commonUsed: number;
  /** Requests and credits of each tenant, whatever its share. */
  readonly counts: Map<TenantId, number>;
}

/** What a further amount would be taken from: narrowest first. */
export type Level = "class" | "tenant" | "common";

export const placesIn = ({ policy }: Pick<FleetShape, "policy">): number =>
  policy?.places ?? DEFAULT_PLACES;

/** What nobody else can take. */
export function guaranteedTo(pool: Pool, tenant: TenantId): number {
  const { own, rest } = shareIn(pool, shareOf(pool, tenant));
  return JOB_CLASSES.length * own + rest;
}

/** Of the shares; the last one is that of all tenants whom the fleet file does not name. */
export function weightsOf(tenants: FleetShape["tenants"]): {
  readonly weights: ReadonlyMap<TenantId, number>;
  readonly weightSum: number;
} {
  const weights = new Map<TenantId, number>([
    ...tenants.map(({ id, weight }) => [id, weight] as const),
    [OTHER_TENANTS, 1],
  ]);
  return { weights, weightSum: [...weights.values()].reduce((sum, weight) => sum + weight, 0) };
}

/** An empty pool. */
export function openPool({ tenants }: Pick<FleetShape, "tenants">, size: number): Pool {
  const { weights, weightSum } = weightsOf(tenants);
  const guaranteed = GUARANTEED_SHARE * size;
  const shares = new Map<TenantId, Share>();
  let kept = 0;
  for (const [tenant, weight] of weights) {
    const own = Math.max(1, Math.floor((CLASS_SHARE * guaranteed * weight) / weightSum));
    const whole = Math.max(JOB_CLASSES.length * own, Math.floor((guaranteed * weight) / weightSum));
    shares.set(tenant, { own, rest: whole - JOB_CLASSES.length * own });
    kept += whole;
  }
  return {
    shares,
    common: Math.max(0, size - kept),
    used: new Map(),
    commonUsed: 0,
    counts: new Map(),
  };
}

/** The places with what is in use: by requests inside, and by credits. */
export function placesOf(
  shape: Pick<FleetShape, "tenants" | "policy">,
  requests: Iterable<OfClass>,
  lobbies: ReadonlyMap<TenantId, Pick<LobbyAccount, "credits">>,
): Pool {
  const pool = openPool(shape, placesIn(shape));
  for (const request of requests) take(pool, request, 1);
  for (const [tenant, { credits }] of lobbies)
    for (const credit of credits.values()) take(pool, { tenant, class: credit.class }, 1);
  return pool;
}

/** The tenant whose share a tenant uses. */
export const shareOf = ({ shares }: Pool, tenant: TenantId): TenantId =>
  shares.has(tenant) ? tenant : OTHER_TENANTS;

interface OfClass {
  readonly tenant: TenantId;
  readonly class: JobClass;
}

/** Takes an amount, or gives a negative one back, whether or not there is room. */
export function take(pool: Pool, of: OfClass, amount: number): void {
  const tenant = shareOf(pool, of.tenant);
  const used = pool.used.get(tenant) ?? { inference: 0, interactive: 0, training: 0 };
  pool.commonUsed -= beyondShare(pool, tenant, used);
  used[of.class] += amount;
  pool.commonUsed += beyondShare(pool, tenant, used);
  pool.used.set(tenant, used);
  const count = (pool.counts.get(of.tenant) ?? 0) + amount;
  if (count > 0) pool.counts.set(of.tenant, count);
  else pool.counts.delete(of.tenant);
}

/** The level from which so much more would be taken; undefined when there is no room for it. */
export function levelFor(pool: Pool, of: OfClass, amount: number): Level | undefined {
  const tenant = shareOf(pool, of.tenant);
  const { own, rest } = shareIn(pool, tenant);
  const used = pool.used.get(tenant) ?? NOTHING;
  if (used[of.class] + amount <= own) return "class";
  const next = { ...used, [of.class]: used[of.class] + amount };
  if (beyondOwn(own, next) <= rest) return "tenant";
  const more = beyondShare(pool, tenant, next) - beyondShare(pool, tenant, used);
  return pool.commonUsed + more <= pool.common ? "common" : undefined;
}

/** Whether so few of the tenant's requests are inside that its next need not wait for those of others of its share. */
export const isSmall = ({ counts }: Pool, tenant: TenantId): boolean =>
  (counts.get(tenant) ?? 0) < SMALL_COUNT;

/** How much is in use, of all tenants. */
export const usedOf = ({ used }: Pool): number =>
  [...used.values()].reduce((sum, each) => sum + sumOf(each), 0);

const NOTHING: Readonly<Record<JobClass, number>> = { inference: 0, interactive: 0, training: 0 };

const shareIn = ({ shares }: Pool, tenant: TenantId): Share =>
  shares.get(tenant) ?? { own: 0, rest: 0 };

const beyondOwn = (own: number, used: Readonly<Record<JobClass, number>>): number =>
  Math.max(0, used.inference - own) +
  Math.max(0, used.interactive - own) +
  Math.max(0, used.training - own);

function beyondShare(
  pool: Pool,
  tenant: TenantId,
  used: Readonly<Record<JobClass, number>>,
): number {
  const { own, rest } = shareIn(pool, tenant);
  return Math.max(0, beyondOwn(own, used) - rest);
}

export const sumOf = ({
  inference,
  interactive,
  training,
}: Readonly<Record<JobClass, number>>): number => inference + interactive + training;
