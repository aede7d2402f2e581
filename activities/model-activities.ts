/**
 * @file What a solver worker does for the bandwidth model of a cluster: judge samples, train, publish.
 *
 * The registry on disk is the truth about versions; each activity reads it afresh. The cluster is read from the fleet, its measured
 * tables from the store, so a version is always used on the hosts as they are described now. Training: split by candidates, learn
 * from one side, score on the other beside the version that serves and a plain guess, write the version down with the
 * verdict. Whether it serves is decided by `publishModel`, which refuses what did not pass.
 */

import type { Client } from "@temporalio/client";
import { ApplicationFailure } from "@temporalio/common";
import { createHash } from "node:crypto";
import type { BandwidthDomain, BandwidthSample, Candidate } from "../domain/bandwidth-port.ts";
import { OrbweaverError } from "../domain/failure.ts";
import type { HostGpus } from "../domain/lease.ts";
import type { HoldoutScore } from "../domain/model-manifest.ts";
import {
  judgeVersion,
  LEAST_CANDIDATES,
  plainGuess,
  scoreOf,
  splitSamples,
  type GateSample,
} from "../models/gate.ts";
import type { Learner } from "../models/learner.ts";
import { clusterDomain } from "../models/lookup.ts";
import { modelDirOf, openRegistry, type ModelRegistry } from "../models/registry.ts";
import { clusterQuery, fleetWorkflowId } from "../workflows/messages.ts";
import type { ModelActivities, ModelPlace, OrderedSample } from "./model-contract.ts";
import type { FleetDetails, Store } from "./store.ts";

export interface ModelPorts {
  readonly client: Client;
  /** The folder of the fleet's store: versions lie below it, measured tables in it. */
  readonly storeDir: string;
  readonly store: Store;
  readonly learner: Learner;
  readonly nowMs: () => number;
  /** Says that the activity lives. */
  readonly beat: () => void;
}

/** A sample about hosts that are not as they were counts so much in training. */
const STALE_WEIGHT = 0.1;
/** Versions that are kept beside those that served. */
const KEPT_VERSIONS = 12;
const BEAT_MS = 2_000;

export function createModelActivities(ports: ModelPorts): ModelActivities {
  const { storeDir, learner, nowMs, beat } = ports;
  const registryOf = ({ cluster }: ModelPlace): ModelRegistry =>
    openRegistry(modelDirOf(storeDir, cluster));
  return failing({
    async servingModel(place) {
      const serving = await registryOf(place).serving();
      return serving === undefined
        ? null
        : { version: serving.version, generation: serving.generation };
    },

    async judgeSamples({ version, samples, ...place }) {
      const cluster = await describe(ports, place);
      const opened = await openVersion(registryOf(place), version, { learner, ...cluster }).catch(
        (error: unknown) => reasonOf(error),
      );
      if (typeof opened === "string") return { kind: "unusable", reason: opened };
      const fit = samples.map((sample) => candidateOf(cluster.domain, sample.gpus));
      const known = fit.filter((candidate) => candidate !== undefined);
      const predicted = opened(known).values();
      return {
        kind: "judged",
        predictedGbs: fit.map((candidate) => {
          const gbs = candidate === undefined ? null : (predicted.next().value ?? null);
          return gbs !== null && Number.isFinite(gbs) ? gbs : null;
        }),
      };
    },

    async trainModel({ order, samples, from, serving, seed, ...place }) {
      return await beating(beat, async () => {
        const registry = registryOf(place);
        const made = (await registry.list()).find((version) => version.order === order);
        if (made !== undefined) return { kind: "trained", version: made.version, gate: made.gate };
        const { domain, detailsHash } = await describe(ports, place);
        const known = samplesOn(domain, samples);
        const split = splitSamples(known);
        if (split === undefined) {
          return {
            kind: "too-few",
            reason: `a version needs measurements of at least ${LEAST_CANDIDATES} different sets of GPUs over several hosts; there are ${new Set(known.map(({ shares }) => JSON.stringify(shares))).size}`,
          };
        }
        const parent = from === undefined ? undefined : await registry.manifest(from);
        const parentFiles =
          parent === undefined ? undefined : await registry.files(parent).catch(() => undefined);
        const { files, metrics } = await learner.learn({
          domain,
          samples: split.training,
          seed,
          ...(parent?.learner === learner.name &&
            parentFiles !== undefined && { from: parentFiles }),
        });
        const at = { domain, version: "new" };
        const own = scoreOf(learner.open(files, at).predict, split.heldOut);
        const plain = scoreOf(plainGuess(split.training), split.heldOut);
        const rival = await servingScore(registry, serving, {
          learner,
          domain,
          heldOut: split.heldOut,
        });
        const rivals = { plain, ...(rival !== undefined && { serving: rival }) };
        const gate = judgeVersion(own, rivals);
        const { version } = await registry.add(
          {
            ...place,
            createdAtMs: nowMs(),
            ...(parentFiles !== undefined && from !== undefined && { parent: from }),
            seed,
            samples: { count: split.training.length, hash: hashOf(split.training) },
            metrics,
            holdout: { own, ...rivals },
            gate,
            hosts: domain.hosts.map((host) => ({ ...host })),
            ...(detailsHash !== undefined && { detailsHash }),
            learner: learner.name,
            order,
          },
          files,
        );
        return { kind: "trained", version, gate };
      });
    },

    async publishModel({ order, version, ...place }) {
      const registry = registryOf(place);
      const before = await registry.serving();
      // Done before, and nobody heard of it: going back twice would be one too many.
      const isDone = before?.order === order;
      const wanted = isDone ? before.version : (version ?? before?.former.at(-1));
      if (wanted === undefined) {
        throw new OrbweaverError(
          "NOT_ALLOWED",
          `no version of the bandwidth model of ${place.cluster} served before ${before?.version ?? "any other"}: there is nothing to roll back to. Name one with --to, or train anew.`,
        );
      }
      const note = await registry.publish({ version: wanted, order, nowMs: nowMs() });
      await registry.discard({ keepNewest: KEPT_VERSIONS, nowMs: nowMs() });
      return { version: note.version, generation: note.generation };
    },
  });
}

interface DescribedCluster {
  readonly domain: BandwidthDomain;
  readonly detailsHash?: string;
}

/** The cluster as the fleet describes it, with what was measured inside its hosts. */
async function describe(
  { client, store }: ModelPorts,
  { fleet, cluster }: ModelPlace,
): Promise<DescribedCluster> {
  const found = await client.workflow
    .getHandle(fleetWorkflowId(fleet))
    .query(clusterQuery, cluster);
  if (found === null) {
    throw new OrbweaverError(
      "NOT_FOUND",
      `fleet ${fleet} has no cluster ${cluster} any more; its bandwidth model has nothing to learn for`,
    );
  }
  const { detailsHash } = found;
  const details =
    detailsHash === undefined ? undefined : await store.get<FleetDetails>(detailsHash);
  return {
    domain: clusterDomain(found.cluster, new Map(details?.hosts ?? [])),
    ...(detailsHash !== undefined && { detailsHash }),
  };
}

async function openVersion(
  registry: ModelRegistry,
  version: string,
  { learner, domain }: { readonly learner: Learner; readonly domain: BandwidthDomain },
): Promise<(candidates: readonly Candidate[]) => readonly number[]> {
  const manifest = await registry.manifest(version);
  if (manifest === undefined)
    throw new OrbweaverError("NOT_FOUND", `there is no version ${version} in ${registry.dir}`);
  const opened = learner.open(await registry.files(manifest), { domain, version });
  return (candidates) => opened.predict(candidates);
}

/** Undefined when none serves, or none that can be used: a new version is then held against the plain guess alone. */
async function servingScore(
  registry: ModelRegistry,
  version: string | undefined,
  {
    heldOut,
    ...by
  }: {
    readonly learner: Learner;
    readonly domain: BandwidthDomain;
    readonly heldOut: readonly BandwidthSample[];
  },
): Promise<(HoldoutScore & { readonly version: string }) | undefined> {
  if (version === undefined) return undefined;
  try {
    return { version, ...scoreOf(await openVersion(registry, version, by), heldOut) };
  } catch {
    return undefined;
  }
}

function samplesOn(
  domain: BandwidthDomain,
  samples: readonly OrderedSample[],
): readonly GateSample[] {
  return samples.flatMap(({ gpus, gbs, isStale }) => {
    const shares = candidateOf(domain, gpus);
    return shares === undefined
      ? []
      : [{ shares, gbs, weight: isStale === true ? STALE_WEIGHT : 1 }];
  });
}

/** Undefined when the cluster has not these hosts with these GPUs. */
export function candidateOf(
  { hosts }: BandwidthDomain,
  gpus: readonly HostGpus[],
): Candidate | undefined {
  const shares = gpus.flatMap(({ host, mask }) => {
    const at = hosts.findIndex(({ id }) => id === host);
    const found = hosts[at];
    return found === undefined || mask >= 2 ** found.gpuCount ? [] : [{ host: at, mask }];
  });
  return shares.length < gpus.length ? undefined : shares.sort((a, b) => a.host - b.host);
}

const hashOf = (samples: readonly GateSample[]): string =>
  createHash("sha256").update(JSON.stringify(samples)).digest("hex");

/** Says that it lives while it works. */
async function beating<Answer>(beat: () => void, work: () => Promise<Answer>): Promise<Answer> {
  const beats = setInterval(beat, BEAT_MS);
  beat();
  try {
    return await work();
  } finally {
    clearInterval(beats);
  }
}

/** Failures with a code of ours reach the workflow under it. */
function failing(activities: ModelActivities): ModelActivities {
  const coded =
    <Order, Answer>(run: (order: Order) => Promise<Answer>) =>
    async (order: Order): Promise<Answer> => {
      try {
        return await run(order);
      } catch (error) {
        if (!(error instanceof OrbweaverError)) throw error;
        throw ApplicationFailure.create({
          type: error.code,
          message: error.message,
          nonRetryable: true,
        });
      }
    };
  return {
    servingModel: coded(activities.servingModel),
    judgeSamples: coded(activities.judgeSamples),
    trainModel: coded(activities.trainModel),
    publishModel: coded(activities.publishModel),
  };
}

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
