/** @file Label values with a bound: a fleet may have any number of tenants, a scraper may not. */

/** Tenants with series of their own; the others share one. */
export const MOST_TENANTS = 200;
export const OTHER_TENANTS = "(others)";

/** The label of each tenant: the first that are met have their own, for as long as the process lives. */
export function tenantLabels(most: number = MOST_TENANTS): (tenant: string) => string {
  const named = new Set<string>();
  return (tenant) => {
    if (named.has(tenant)) return tenant;
    if (named.size >= most) return OTHER_TENANTS;
    named.add(tenant);
    return tenant;
  };
}
