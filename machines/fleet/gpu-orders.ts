/**
 * @file Refuses orders about single GPUs that make no sense for the fleet: GPUs that it lacks, rules that know no such drains, and what an agent
 * orders by drains that have changed since it looked (`isNew` and `of` in `protocol/messages.ts`).
 */

import type { HostGpus } from "../../domain/lease/lease.ts";
import { isWord, parseHostId, type HostId } from "../../domain/values/ids.ts";
import { fullMask, membersOf } from "../../lib/bits.ts";
import { inOrder } from "../../lib/chain.ts";
import {
  drainedMask,
  GPU_DRAIN_RULES,
  withGpuDrain,
  withoutGpuDrains,
  type GpuDrain,
} from "../../scheduling/ledger/rules/gpu-drains.ts";
import type { OperatorOrder } from "./events.ts";
import { seenDrains, type OrderRefusal } from "./orders.ts";
import type { FleetState } from "./state.ts";

export function refuseGpus(
  { name, ledger }: Pick<FleetState, "name" | "ledger">,
  order: unknown,
): OrderRefusal | undefined {
  const gpus = partsIn(order);
  if (gpus === undefined)
    return { code: "BAD_INPUT", message: "the order names no GPUs as hosts with masks" };
  if (ledger.applyVersion < GPU_DRAIN_RULES)
    return {
      code: "NOT_ALLOWED",
      message: `fleet ${name} follows rules ${ledger.applyVersion}, which drain whole hosts alone; \`orbweaver fleet upgrade\` commits rules ${GPU_DRAIN_RULES}`,
    };
  const counts = new Map<string, number>(
    ledger.shape.clusters.flatMap(({ hosts }) => hosts.map(({ id, gpuCount }) => [id, gpuCount])),
  );
  for (const { host, mask } of gpus) {
    const count = counts.get(host);
    if (count === undefined)
      return {
        code: "NOT_FOUND",
        message: `fleet ${name} has no host ${host}; hosts are named cluster/host, see \`orbweaver fleet show\``,
      };
    // What was drained before the host was described with fewer GPUs can be undrained all the same.
    const unknown = mask & ~(fullMask(count) | drainedMask(ledger.hosts.get(host)));
    if (unknown !== 0)
      return {
        code: "NOT_FOUND",
        message: `${host} has GPUs 0 to ${count - 1}, and no GPU ${membersOf(unknown).join(", ")}`,
      };
  }
  return undefined;
}

/** Orders that wait for the end of a cycle count. */
export function refuseOutdatedGpus(
  { ledger, deferred }: Pick<FleetState, "ledger" | "deferred">,
  order: unknown,
): OrderRefusal | undefined {
  const seen = seenDrains(order);
  if (seen === undefined) return undefined;
  const { isNew, of } = seen;
  for (const { host, mask } of partsIn(order) ?? []) {
    let drains: readonly GpuDrain[] = ledger.hosts.get(host)?.gpuDrains ?? [];
    for (const event of inOrder(deferred))
      if (event.kind === "order") drains = after(event.order, { host, drains });
    const counted = isNew ? drains : drains.filter(({ reason }) => reason.startsWith(of));
    const drained = drainedMask({ gpuDrains: counted });
    const wrong = mask & (isNew ? drained : ~drained);
    if (wrong === 0) continue;
    const named = membersOf(wrong).join(", ");
    const found = isNew ? "is drained already" : `is not drained for a reason that begins: ${of}`;
    return { code: "NOT_ALLOWED", message: `GPU ${named} of ${host} ${found}. Look again.` };
  }
  return undefined;
}

function after(
  order: OperatorOrder,
  { host, drains }: { readonly host: HostId; readonly drains: readonly GpuDrain[] },
): readonly GpuDrain[] {
  if (order.kind !== "drain-gpus" && order.kind !== "undrain-gpus") return drains;
  const mask = order.gpus.find((part) => part.host === host)?.mask ?? 0;
  return order.kind === "undrain-gpus"
    ? withoutGpuDrains(drains, mask)
    : withGpuDrain(drains, { mask, reason: order.reason, sinceMs: 0 });
}

/** The GPUs that an order names, each host once; undefined when it is malformed. */
function partsIn(order: unknown): readonly HostGpus[] | undefined {
  const gpus: unknown =
    typeof order === "object" && order !== null && "gpus" in order && order.gpus;
  if (!Array.isArray(gpus) || gpus.length === 0) return undefined;
  const parts = gpus.flatMap((part: unknown): HostGpus[] => {
    if (typeof part !== "object" || part === null) return [];
    const host = "host" in part ? part.host : undefined;
    const mask = "mask" in part ? part.mask : undefined;
    if (typeof host !== "string" || !isWord(host) || typeof mask !== "number") return [];
    return Number.isInteger(mask) && mask > 0 ? [{ host: parseHostId(host), mask }] : [];
  });
  const isSound = new Set(parts.map(({ host }) => host)).size === gpus.length;
  const areMasks = parts.every(({ mask }) => mask === (mask | 0));
  return isSound && areMasks ? parts : undefined;
}
