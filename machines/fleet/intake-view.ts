/**
 * @file How full a fleet is: places, requests inside, jobs outside and credits, in all and by tenant.
 *
 * A pure function of the ledger. Cost: O(requests + lobbies).
 */

import type { TenantId } from "../../domain/values/ids.ts";
import type { IntakeView } from "../../protocol/lobby.ts";
import { OTHER_TENANTS, type LobbyAccount } from "../../scheduling/ledger/intake.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { guaranteedTo, openPool, placesIn, sumOf } from "../../scheduling/ledger/rules/places.ts";

export type { IntakeView } from "../../protocol/lobby.ts";

export function intakeView({ shape, requests, intake }: Ledger): IntakeView {
  const places = placesIn(shape);
  const pool = openPool(shape, places);
  const inside = new Map<TenantId, number>();
  for (const { tenant } of requests.values()) inside.set(tenant, (inside.get(tenant) ?? 0) + 1);
  const lobbies = intake?.lobbies ?? new Map<TenantId, LobbyAccount>();
  const names = new Set([...shape.tenants.map(({ id }) => id), OTHER_TENANTS, ...lobbies.keys()]);
  const tenants = [...names].map((tenant) => {
    const account = lobbies.get(tenant);
    return {
      tenant,
      share: guaranteedTo(pool, tenant),
      inside: inside.get(tenant) ?? 0,
      outside: account === undefined ? 0 : sumOf(account.waiting),
      credits: account?.credits.size ?? 0,
    };
  });
  return {
    places,
    inside: requests.size,
    outside: tenants.reduce((sum, each) => sum + each.outside, 0),
    credits: tenants.reduce((sum, each) => sum + each.credits, 0),
    tenants,
  };
}
