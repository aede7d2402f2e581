/**
 * @file The image of a launch on this host: which runtime starts it, what its processes see of the host, and their environment.
 *
 * They see the folder of the run, the checkpoints, and what Orbweaver gives a launch, at the host's own paths, so the variables that name those hold
 * inside.
 */

import type { RunAs } from "../../access/run-as.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import { bandwidthDir } from "../folder/bandwidth-file.ts";
import { extrasDir } from "../folder/extra-files.ts";
import type { LaunchPlan, RankPlan } from "../folder/launch-files.ts";
import { imageWords } from "../images/image-words.ts";
import { pickTool, type PickedTool } from "../images/pick-tool.ts";
import { runtimeEnv, type Environment } from "../images/runtime-env.ts";
import type { Images } from "../ports/images.ts";
import { TASK_VARIABLES } from "../shim/task-environment.ts";
import { maskOn, type AgentHost } from "./agent-host.ts";
import { gpuIds, HOST_VARIABLES, secretNames } from "./rank-environment.ts";

export interface ImagePorts {
  /** Absent where a host starts no images. */
  readonly images?: Images;
  readonly nativePath?: string | undefined;
  /** As which user of the host the order's processes run; as the agent's own when undefined. */
  readonly runAsOf?: (order: RunOrder) => RunAs | undefined;
}

/** The runtime of this host for the order's image, or why there is none; undefined for an order without an image. */
export function pickedTool(order: RunOrder, ports: ImagePorts): PickedTool | undefined {
  const { container: rule } = order.run;
  if (rule === undefined) return undefined;
  const { images } = ports;
  const runAs = ports.runAsOf?.(order);
  return pickTool(rule, images?.tools ?? [], {
    uid: runAs?.user.uid ?? images?.ids.uid ?? 0,
    isOther: runAs !== undefined,
  });
}

/** The parts of a launch's plan that its image changes. */
export type PlannedProcesses = Pick<LaunchPlan, "ranks" | "batch">;

export interface ImageSurroundings {
  readonly launchDir: string;
  /** Absent where no process of the launch writes checkpoints there. */
  readonly checkpointDir: string | undefined;
  readonly cwd: string;
  readonly tunerPlugin?: string;
  readonly processes: PlannedProcesses;
  /** The agent's own. */
  readonly env: Environment;
}

/** The same processes in their image; nothing is changed for an order without one. */
export function inImage(
  { gpus: nodes = [] }: Pick<AgentHost, "gpus">,
  order: RunOrder,
  { ports, ...around }: ImageSurroundings & { readonly ports: ImagePorts },
): PlannedProcesses & Pick<LaunchPlan, "image"> {
  const { processes } = around;
  const { container: rule } = order.run;
  const picked = pickedTool(order, ports);
  const { images } = ports;
  // `prepare` has refused what no runtime of the host starts.
  if (rule === undefined || picked === undefined || !("tool" in picked) || images === undefined)
    return processes;
  const { ranks, batch } = processes;
  const set = [...Object.keys(order.run.env), ...secretNames(order)];
  const dropped = HOST_VARIABLES.filter((name) => !set.includes(name));
  const all = [...ranks, ...(batch?.slots.flat() ?? [])];
  const runAs = ports.runAsOf?.(order);
  const words = imageWords({
    rule,
    tool: picked.tool,
    gpus: gpuIds(maskOn(order)).flatMap((gpu) => nodes[gpu] ?? []),
    variables: namesOf([
      ...all.flatMap(({ env }) => Object.keys(env)),
      ...secretNames(order),
      ...(batch === undefined ? [] : TASK_VARIABLES),
    ]).filter((name) => !dropped.includes(name)),
    dropped,
    folders: foldersOf(order, around).map((path) => ({
      ...{ source: path, target: path },
      isReadOnly: path === around.tunerPlugin,
    })),
    workdir: rule.workdir ?? around.cwd,
    ids: runAs?.user ?? images.ids,
    limits: images.limits,
    native: ports.nativePath ?? "",
    entriesOf: (path) => images.entriesOf(rule.image, path),
  });
  const given = runtimeEnv(around.env, {
    ...{ runtime: picked.tool.runtime, to: "launch" },
    isOther: runAs !== undefined,
  });
  const withGiven = (rank: RankPlan): RankPlan => ({ ...rank, env: { ...given, ...rank.env } });
  return {
    ranks: ranks.map(withGiven),
    ...(batch !== undefined && {
      batch: { ...batch, slots: batch.slots.map((slot) => slot.map(withGiven)) },
    }),
    image: { words, runtime: picked.tool.runtime },
  };
}

function foldersOf(
  { taskBatch, launchExtras }: RunOrder,
  { launchDir, checkpointDir, cwd, tunerPlugin }: Omit<ImageSurroundings, "processes" | "env">,
): readonly string[] {
  return [
    cwd,
    ...(checkpointDir === undefined ? [] : [checkpointDir]),
    ...(taskBatch === undefined ? [bandwidthDir(launchDir)] : []),
    ...(launchExtras === undefined || taskBatch !== undefined ? [] : [extrasDir(launchDir)]),
    ...(tunerPlugin === undefined ? [] : [tunerPlugin]),
  ];
}

const namesOf = (names: readonly string[]): readonly string[] => [...new Set(names)].sort();
