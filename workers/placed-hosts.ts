/** @file The GPUs of an agent's machine by the places that its hosts have noted, at the agent's start and at each later answer of the driver. */

import { placeGpus } from "../agent/folder/gpus-file.ts";
import type { HostGpu } from "../agent/containment/host-gpus.ts";
import type { AgentHost } from "../agent/runs/agent-host.ts";
import { nodeFiles } from "../agent/system/node-files.ts";
import { hostLayout } from "../agent/system/state-layout.ts";
import type { ServedHost } from "./host-resources.ts";

interface Placing {
  readonly stateDir: string;
  readonly fleet: string;
  readonly onNote: (note: string) => void;
}

/** The agent has the host's lock. */
export const placedBy =
  (placing: Placing) =>
  (host: ServedHost): ServedHost => {
    const { gpus: shown, gpusIn } = host;
    if (shown === undefined) return host;
    let known: readonly HostGpu[] = [];
    const place = (now: readonly HostGpu[]): readonly HostGpu[] => {
      known = placed(host, { shown: now, known }, placing);
      return known;
    };
    return {
      ...host,
      gpus: place(shown),
      ...(gpusIn !== undefined && { gpusIn: async (answer) => place(await gpusIn(answer)) }),
    };
  };

function placed(
  { id, gpuCount, gpuType = "" }: ServedHost,
  seen: { readonly shown: readonly HostGpu[]; readonly known: readonly HostGpu[] },
  { stateDir, fleet, onNote }: Placing,
): readonly HostGpu[] {
  const { gpus } = hostLayout(nodeFiles, { stateDir, fleet, id });
  return placeGpus(nodeFiles, gpus, { described: { gpuCount, gpuType }, ...seen, onNote });
}

const hasDevices = ({ devices }: HostGpu): boolean => devices.length > 0;

/** What an answer shows may differ from what the host has known: a GPU is gone, or is there again. An answer that does not say its GPUs changes nothing. */
export async function placeAnew(
  host: AgentHost,
  { gpusIn }: Pick<ServedHost, "gpusIn">,
  { answer, onNote }: { readonly answer: string; readonly onNote: (note: string) => void },
): Promise<void> {
  if (gpusIn === undefined) return;
  const { gpus: former = [] } = host;
  const now = await gpusIn(answer).catch((error: unknown) => {
    onNote(`${host.id}: its GPUs stay as they were known: ${String(error)}`);
    return undefined;
  });
  if (now === undefined || JSON.stringify(now) === JSON.stringify(former)) return;
  // Where the driver's files do not say the devices any more, the wall of those that they have said is not taken down.
  if (former.some(hasDevices) && !now.every((gpu) => gpu.isGone === true || hasDevices(gpu)))
    return;
  host.gpus = now;
  const isGone = new Set(former.flatMap(({ uuid, isGone }) => (isGone === true ? [uuid] : [])));
  for (const { uuid, index, isGone: isGoneNow = false } of now)
    if (isGoneNow !== isGone.has(uuid))
      onNote(`${host.id}: GPU ${index} (${uuid}) is ${isGoneNow ? "gone" : "there again"}`);
}
