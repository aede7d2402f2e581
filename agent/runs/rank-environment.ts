/**
 * @file The environment of each local process of a gang, in the variables that frameworks already read.
 *
 * `RANK`, `WORLD_SIZE`, `LOCAL_RANK` and `LOCAL_WORLD_SIZE` count the processes that Orbweaver starts: one for each GPU, or one
 * for each host. Per GPU, every local process sees all of the lease's GPUs of its host, because programs written for torchrun
 * pick their own by LOCAL_RANK. Per host, RANK is NODE_RANK and WORLD_SIZE is NNODES (what JAX and MPI-like starters expect of
 * one process a host), and the PET_ variables set torchrun's options, which then numbers the processes that it starts itself.
 * A gang that was granted fewer GPUs than it asked for finds that in ORBWEAVER_GPUS_REQUESTED, and its batch in step (granted-batch.ts).
 * The launch extras (`order.launchExtras`) come before the job's own `env`, so a user's setting of NCCL wins over ours; which devices run a served
 * model is theirs alone to say, whatever the job's `env` says.
 * The processes write the bandwidth of their collectives to the file that ORBWEAVER_BANDWIDTH_FILE names (bandwidth-file.ts).
 * They write the times of their steps to the one that ORBWEAVER_STEPS_FILE names (steps-file.ts).
 * GPUs are named by their ids, or by their place in PCI order, the order of `nvidia-smi`, where the machine says no ids. Hosts may have
 * different GPU counts; ranks follow the gang's order.
 * Little of the agent's own environment is passed on, and the job's `env` cannot replace a variable that is set here.
 */

import { GPU_INDICES_VARIABLE, isSecretName } from "../../domain/job/job-env.ts";
import {
  isServing,
  SERVED_DEVICES,
  SERVED_DEVICES_FILE,
  SERVING_ENV,
} from "../../domain/job/serving-env.ts";
import { grantedBatch } from "../../domain/lease/granted-batch.ts";
import { extraText } from "../../domain/lease/launch-extras.ts";
import { popCount } from "../../domain/lease/lease.ts";
import type { CheckpointMark, RunOrder } from "../../protocol/agent-contract.ts";
import { BANDWIDTH_FILE_VARIABLE, bandwidthFile } from "../folder/bandwidth-file.ts";
import { visibleDevices, type HostGpu } from "../containment/host-gpus.ts";
import { LAUNCH_MARK, OWNER_MARK, type RankPlan } from "../folder/launch-files.ts";
import { STEPS_FILE_VARIABLE, stepsFile } from "../folder/steps-file.ts";
import { servingFile } from "../folder/serving-file.ts";
import { extrasEnv } from "../folder/extra-files.ts";
import type { ServedWeights } from "./served-weights.ts";

/** Of the agent's own environment; a job brings everything else. */
const PASSED_ON = ["PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH"] as const;
/** Those that say something of this host alone, so nothing inside an image. */
export const HOST_VARIABLES: readonly string[] = PASSED_ON.filter((name) => name !== "LANG");
const LOOPBACK = "127.0.0.1";

export interface RankSurroundings {
  readonly agentEnv: Readonly<Record<string, string | undefined>>;
  readonly launchDir: string;
  readonly owner: string;
  readonly masterPort: number;
  /** Given where all hosts of the gang have it. */
  readonly tunerPlugin?: string;
  /** Of a served model, where the host keeps weights. */
  readonly weights?: ServedWeights;
  readonly checkpointDir: string;
  /** Of the host, by their indices, where its machine shows them. */
  readonly gpus?: readonly HostGpu[];
  /** The newest complete one when the run starts. */
  readonly checkpoint: CheckpointMark | undefined;
}

/** The local processes in rank order. */
export function planRanks(order: RunOrder, surroundings: RankSurroundings): readonly RankPlan[] {
  const { gang, host, run } = order;
  const nodeRank = gang.findIndex((part) => part.host === host);
  const mask = gang[nodeRank]?.mask ?? 0;
  const own = {
    ...passedOn(surroundings.agentEnv),
    ...(order.launchExtras !== undefined && extrasEnv(order.launchExtras, surroundings.launchDir)),
    ...(surroundings.tunerPlugin !== undefined && {
      NCCL_TUNER_PLUGIN: surroundings.tunerPlugin,
      // One library is both.
      NCCL_PROFILER_PLUGIN: surroundings.tunerPlugin,
    }),
    ...run.env,
    ...servedDevices(order),
  };
  const secrets = secretNames(order);
  const base: Record<string, string> = {
    // The supervisor adds the values (`shim/secret-input.ts`).
    ...Object.fromEntries(Object.entries(own).filter(([name]) => !secrets.includes(name))),
    ...commonEnv(order, surroundings),
    CUDA_VISIBLE_DEVICES: visibleDevices(gpuIds(mask), surroundings.gpus),
    [GPU_INDICES_VARIABLE]: gpuIds(mask).join(","),
    NODE_RANK: String(nodeRank),
    NNODES: String(gang.length),
  };
  if (run.launch === "per-host") {
    return [
      {
        rank: nodeRank,
        env: {
          ...base,
          ...ofRank({ rank: nodeRank, worldSize: gang.length, localRank: 0, localSize: 1 }),
          ...torchrunEnv(base, popCount(mask)),
        },
      },
    ];
  }
  const counts = gang.map((part) => popCount(part.mask));
  const worldSize = sum(counts);
  const firstRank = sum(counts.slice(0, nodeRank));
  const localSize = popCount(mask);
  return Array.from({ length: localSize }, (_, localRank) => {
    const rank = firstRank + localRank;
    return { rank, env: { ...base, ...ofRank({ rank, worldSize, localRank, localSize }) } };
  });
}

/** Of the variables whose values are looked up here. An order that nobody signed may name any; those of Orbweaver are not its to set. */
export const secretNames = ({ run }: RunOrder): readonly string[] =>
  Object.keys(run.secrets ?? {})
    .filter(isSecretName)
    .sort();

/** GPU ids of a host's mask, ascending. */
export function gpuIds(mask: number): readonly number[] {
  return Array.from({ length: 32 }, (_, gpu) => gpu).filter((gpu) => (mask >>> gpu) % 2 === 1);
}

function commonEnv(order: RunOrder, surroundings: RankSurroundings): Record<string, string> {
  const { gang } = order;
  const granted = sum(gang.map((part) => popCount(part.mask)));
  const requested = order.gpusRequested ?? granted;
  return {
    CUDA_DEVICE_ORDER: "PCI_BUS_ID",
    MASTER_ADDR: gang.length === 1 ? LOOPBACK : (gang[0]?.address ?? LOOPBACK),
    MASTER_PORT: String(surroundings.masterPort),
    ORBWEAVER_JOB_ID: order.jobId,
    ORBWEAVER_JOB_NAME: order.jobName,
    ORBWEAVER_LEASE_ID: order.leaseId,
    ORBWEAVER_TOKEN: String(order.token),
    ORBWEAVER_HOST: order.host,
    ORBWEAVER_GPUS: String(granted),
    ORBWEAVER_GPUS_REQUESTED: String(requested),
    ORBWEAVER_ATTEMPT: String(order.attempt),
    ORBWEAVER_CHECKPOINT_DIR: surroundings.checkpointDir,
    ...(surroundings.checkpoint !== undefined && {
      ORBWEAVER_CHECKPOINT: surroundings.checkpoint.path,
    }),
    ...(order.model !== undefined && { ORBWEAVER_MODEL: order.model }),
    ...(order.batch !== undefined && {
      ORBWEAVER_BATCH: String(grantedBatch({ batch: order.batch, requested, granted })),
      ORBWEAVER_BATCH_REQUESTED: String(order.batch),
    }),
    ...(order.taskBatch === undefined && {
      [BANDWIDTH_FILE_VARIABLE]: bandwidthFile(surroundings.launchDir),
      [STEPS_FILE_VARIABLE]: stepsFile(surroundings.launchDir),
    }),
    ...(isServing(order.run.command) && {
      [SERVING_ENV.file]: servingFile(surroundings.launchDir),
      [SERVING_ENV.address]:
        order.gang.find(({ host }) => host === order.host)?.address ?? LOOPBACK,
    }),
    ...(surroundings.weights !== undefined && {
      [SERVING_ENV.weights]: surroundings.weights.dir,
      [SERVING_ENV.weightsBytes]: String(surroundings.weights.mostBytes),
    }),
    [LAUNCH_MARK]: surroundings.launchDir,
    [OWNER_MARK]: surroundings.owner,
  };
}

/** Empty where nobody said it, which `orbweaver serve` takes for nothing said. */
function servedDevices({ run, launchExtras }: RunOrder): Record<string, string> {
  const name = SERVING_ENV.devices;
  const text = extraText(launchExtras, SERVED_DEVICES_FILE);
  const said = SERVED_DEVICES.find((each) => each === text);
  if (said !== undefined) return { [name]: said };
  return run.env[name] === undefined ? {} : { [name]: "" };
}

interface RankPlace {
  readonly rank: number;
  readonly worldSize: number;
  readonly localRank: number;
  readonly localSize: number;
}

const ofRank = ({ rank, worldSize, localRank, localSize }: RankPlace): Record<string, string> => ({
  RANK: String(rank),
  WORLD_SIZE: String(worldSize),
  LOCAL_RANK: String(localRank),
  LOCAL_WORLD_SIZE: String(localSize),
});

/** torchrun reads each of its options from `PET_<OPTION>`. */
const torchrunEnv = (
  base: Readonly<Record<string, string>>,
  gpuCount: number,
): Record<string, string> => ({
  NPROC_PER_NODE: String(gpuCount),
  PET_NNODES: base["NNODES"] ?? "1",
  PET_NODE_RANK: base["NODE_RANK"] ?? "0",
  PET_NPROC_PER_NODE: String(gpuCount),
  PET_MASTER_ADDR: base["MASTER_ADDR"] ?? LOOPBACK,
  PET_MASTER_PORT: base["MASTER_PORT"] ?? "",
});

function passedOn(agentEnv: RankSurroundings["agentEnv"]): Record<string, string> {
  const pairs = PASSED_ON.flatMap((name) => {
    const value = agentEnv[name];
    return value === undefined ? [] : [[name, value] as const];
  });
  return Object.fromEntries(pairs);
}

const sum = (counts: readonly number[]): number =>
  counts.reduce((total, count) => total + count, 0);
