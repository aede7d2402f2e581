/**
 * @file What the argument of each update to a fleet orders, once the update has been accepted.
 *
 * Shared by the fleet's workflow and by those who follow its history, so that both feed the machine the same. Keyed by the updates' names.
 */

import { parseHostId, type HostId } from "../../domain/values/ids.ts";
import type { HostGpus } from "../../domain/lease/lease.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import { readQueuePart } from "../../domain/lease/queue-part.ts";
import type { QueueHoldOrder } from "../../protocol/queue-orders.ts";
import type { RepairChoice } from "../../protocol/repair.ts";
import type { FleetOrderName } from "../../protocol/word-proof.ts";
import type { OperatorOrder } from "./events.ts";

interface Hosts {
  readonly hosts: readonly string[];
}
interface Gpus {
  readonly gpus: readonly { readonly host: string; readonly mask: number }[];
}
type AboutHosts<Kind extends string> = Extract<OperatorOrder, { readonly kind: Kind }> & {
  readonly hosts: readonly HostId[];
};

/** The ledger carries a hold for as long as it lasts. */
const BY_CHARACTERS = 100;
const REASON_CHARACTERS = 200;

export const UPDATE_ORDERS = {
  drain: ({ hosts, reason }: Hosts & { readonly reason: string }): AboutHosts<"drain"> => {
    return { kind: "drain", hosts: hosts.map(parseHostId), reason: String(reason) };
  },
  undrain: ({ hosts }: Hosts): AboutHosts<"undrain"> => {
    return { kind: "undrain", hosts: hosts.map(parseHostId) };
  },
  "drain-gpus": ({ gpus, reason }: Gpus & { readonly reason: string }): OperatorOrder => {
    return { kind: "drain-gpus", gpus: gpus.map(partOf), reason: String(reason) };
  },
  "undrain-gpus": ({ gpus }: Gpus): OperatorOrder => {
    return { kind: "undrain-gpus", gpus: gpus.map(partOf) };
  },
  fence: ({ hosts }: Hosts): AboutHosts<"fence"> => {
    return { kind: "fence", hosts: hosts.map(parseHostId) };
  },
  configure: ({
    shape,
    detailsHash,
  }: Pick<PackedLedger, "shape" | "detailsHash">): OperatorOrder => {
    return {
      kind: "configure",
      shape,
      ...(typeof detailsHash === "string" && { detailsHash }),
    };
  },
  "hold-queue": ({ queue, isDraining, by, reason }: QueueHoldOrder): OperatorOrder => {
    return {
      kind: "hold-queue",
      queue: readQueuePart(queue) ?? queue,
      isDraining: isDraining === true,
      by: String(by).slice(0, BY_CHARACTERS),
      reason: typeof reason === "string" ? reason.slice(0, REASON_CHARACTERS) : undefined,
    };
  },
  "release-queue": ({ queue }: Pick<QueueHoldOrder, "queue">): OperatorOrder => {
    return { kind: "release-queue", queue: readQueuePart(queue) ?? queue };
  },
  upgrade: (rules: number): OperatorOrder => ({ kind: "upgrade", rules }),
  repair: (choice: RepairChoice): OperatorOrder => ({ kind: "repair", ...choice }),
} as const;

const partOf = ({ host, mask }: Gpus["gpus"][number]): HostGpus => ({
  host: parseHostId(host),
  mask,
});

/** False for an update that no fleet knows. */
export const isOrderName = (update: string): update is FleetOrderName =>
  Object.hasOwn(UPDATE_ORDERS, update);

export function orderOf(update: FleetOrderName, argument: unknown): OperatorOrder {
  // The fleet has accepted the update, so its validator has seen the argument.
  const read = UPDATE_ORDERS[update] as (argument: unknown) => OperatorOrder;
  return read(argument);
}
