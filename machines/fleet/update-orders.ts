/**
 * @file What the argument of each update to a fleet orders, once the update has been accepted.
 *
 * Shared by the fleet's workflow and by those who follow its history, so that both feed the machine the same. Keyed by the updates' names.
 */

import { parseHostId, type HostId } from "../../domain/values/ids.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import type { RepairChoice } from "../../protocol/repair.ts";
import type { OperatorOrder } from "./events.ts";

interface Hosts {
  readonly hosts: readonly string[];
}
type AboutHosts<Kind extends string> = Extract<OperatorOrder, { readonly kind: Kind }> & {
  readonly hosts: readonly HostId[];
};

export const UPDATE_ORDERS = {
  drain: ({ hosts, reason }: Hosts & { readonly reason: string }): AboutHosts<"drain"> => {
    return { kind: "drain", hosts: hosts.map(parseHostId), reason: String(reason) };
  },
  undrain: ({ hosts }: Hosts): AboutHosts<"undrain"> => {
    return { kind: "undrain", hosts: hosts.map(parseHostId) };
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
  upgrade: (rules: number): OperatorOrder => ({ kind: "upgrade", rules }),
  repair: (choice: RepairChoice): OperatorOrder => ({ kind: "repair", ...choice }),
} as const;

/** Undefined for an update that no fleet knows. */
export function orderOf(update: string, argument: unknown): OperatorOrder | undefined {
  if (!Object.hasOwn(UPDATE_ORDERS, update)) return undefined;
  // The fleet has accepted the update, so its validator has seen the argument.
  const read = UPDATE_ORDERS[update as keyof typeof UPDATE_ORDERS] as (
    argument: unknown,
  ) => OperatorOrder;
  return read(argument);
}
