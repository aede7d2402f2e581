/**
 * @file Changes of the fleet's description and of host conditions in a ledger's transaction.
 *
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import type { HostId } from "../../../domain/values/ids.ts";
import type { HostStatus } from "../ledger.ts";
import { noteShape } from "../rules/service-account.ts";
import { sizeHost } from "../size-account.ts";
import { keptStatus } from "../kept-shape.ts";
import { isMassSilence } from "./mass-silence.ts";
import { settledBook } from "./transaction-accounts.ts";
import { reopenSize } from "./transaction-size.ts";
import { noteChange, type LedgerTransaction } from "./transaction.ts";

/** Replaces the description of the fleet, and drops all that depends on the former one. */
export function setShape(
  transaction: LedgerTransaction,
  shape: FleetShape,
  detailsHash: string | undefined,
): void {
  noteShape(settledBook(transaction), shape);
  transaction.shape = shape;
  transaction.detailsHash = detailsHash;
  transaction.usage = undefined;
  transaction.places = undefined;
  transaction.byteShares = undefined;
  for (const cluster of [...transaction.models.keys()])
    if (!shape.clusters.some(({ id }) => id === cluster))
      transaction.drafts.models.write().delete(cluster);
  const sites = new Set(shape.clusters.map(({ site }) => site));
  for (const [key, { from, to }] of [...transaction.links])
    if (!sites.has(from) || !sites.has(to)) transaction.drafts.links.write().delete(key);
  reopenSize(transaction);
  transaction.watcher.shape?.(shape);
  noteChange(transaction);
}

/** Undefined: the ledger knows nothing of the host. */
export function setHost(
  transaction: LedgerTransaction,
  host: HostId,
  status: HostStatus | undefined,
): void {
  transaction.wasMassSilent ??= isMassSilence(transaction.hosts);
  if (transaction.size !== undefined)
    sizeHost(transaction.size, host, { before: transaction.hosts.get(host), after: status });
  const hosts = transaction.drafts.hosts.write();
  if (status === undefined) hosts.delete(host);
  else hosts.set(host, keptStatus(status));
  transaction.isChanged = true;
  transaction.watcher.host?.(host);
}
