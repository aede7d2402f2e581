/**
 * @file Which devices run a served model on the host of a lease: its GPUs, unless the fleet file says that they stand for processors.
 *
 * The word goes out whatever becomes of the plan, because a host with GPUs must not serve on its processor by accident.
 */

import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { SERVED_DEVICES_FILE, type ServedDevices } from "../../domain/job/serving-env.ts";
import type { ExtraFile } from "../../domain/lease/launch-extras.ts";
import type { LaunchExtrasOrder } from "../../protocol/launch-extras-contract.ts";

/** Undefined where the fleet no longer has the host. A simulated cluster's GPUs are made up, so they stand for processors too. */
export function servedDevices(
  { gpus: [place] }: Pick<LaunchExtrasOrder, "gpus">,
  { clusters }: FleetShape,
): ServedDevices | undefined {
  for (const { isSimulated, hosts } of clusters) {
    const host = hosts.find(({ id }) => id === place?.host);
    if (host !== undefined) return isSimulated ? "cpu" : (host.devices ?? "cuda");
  }
  return undefined;
}

/** Of a job that wants another part, none. */
export function devicesFiles(
  order: Pick<LaunchExtrasOrder, "gpus" | "parts">,
  shape: FleetShape,
): readonly ExtraFile[] {
  const devices = order.parts.includes("inference") ? servedDevices(order, shape) : undefined;
  return devices === undefined ? [] : [{ name: SERVED_DEVICES_FILE, text: devices }];
}
