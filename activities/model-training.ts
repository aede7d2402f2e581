/**
 * @file Trains a version of a cluster's bandwidth model and writes it down with the result of its gate.
 *
 * Samples are split by candidates. The learner reads one side; the other side scores the new version beside the serving version and
 * a plain guess. Training is idempotent by its order: a repeated order returns the version that the first one made.
 */

import type { Client } from "@temporalio/client";
import { createHash } from "node:crypto";
import type { BandwidthDomain, BandwidthSample } from "../domain/bandwidth/bandwidth-port.ts";
import type { HoldoutScore } from "../domain/model/model-manifest.ts";
import {
  evaluateVersion,
  LEAST_CANDIDATES,
  plainGuess,
  predictAsked,
  scoreOf,
  splitSamples,
  type GateSample,
} from "../models/bandwidth/gate.ts";
import type { Learner } from "../models/bandwidth/learner.ts";
import { OnnxruntimeMissing } from "../models/onnxruntime.ts";
import type { ModelRegistry } from "../models/bandwidth/registry.ts";
import type { OrderedSample, TrainOrder, TrainReport } from "../protocol/model-contract.ts";
import { candidateOf, describeCluster, openVersion } from "./model-cluster.ts";
import type { Store } from "./store.ts";

export interface TrainingPorts {
  readonly client: Client;
  readonly store: Store;
  readonly learner: Learner;
  readonly nowMs: () => number;
}

/** Weight in training of a sample whose hosts have changed since. */
const STALE_WEIGHT = 0.1;

export async function trainVersion(
  ports: TrainingPorts,
  registry: ModelRegistry,
  { order, samples, from, serving, seed, ...place }: TrainOrder,
): Promise<TrainReport> {
  const { learner, nowMs } = ports;
  const made = (await registry.list()).find((version) => version.order === order);
  if (made !== undefined) return { kind: "trained", version: made.version, gate: made.gate };
  const { domain, detailsHash } = await describeCluster(ports, place);
  const known = samplesOn(domain, samples);
  const split = splitSamples(known);
  if (split === undefined) return { kind: "too-few", reason: tooFew(known) };
  const parent = from === undefined ? undefined : await registry.manifest(from);
  const parentFiles =
    parent === undefined ? undefined : await registry.files(parent).catch(() => undefined);
  const learning = learner.learn({
    domain,
    samples: split.training,
    seed,
    ...(parent?.learner === learner.name && parentFiles !== undefined && { from: parentFiles }),
  });
  const learned = await learning.catch(missingRuntime);
  if (learned instanceof OnnxruntimeMissing)
    return { kind: "too-few", reason: `${learned.message}, then: orbweaver model train CLUSTER` };
  const { files, metrics } = learned;
  const { heldOut } = split;
  const own = scoreOf(predictAsked(learner.open(files, { domain, version: "new" })), heldOut);
  const plain = scoreOf(plainGuess(split.training), heldOut);
  const rival = await servingScore(registry, serving, { learner, domain, heldOut });
  const rivals = { plain, ...(rival !== undefined && { serving: rival }) };
  const gate = evaluateVersion(own, rivals);
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
}

/** No failure, which would be tried again each minute: nothing changes until somebody installs it. */
function missingRuntime(error: unknown): OnnxruntimeMissing {
  if (error instanceof OnnxruntimeMissing) return error;
  throw error;
}

function tooFew(known: readonly GateSample[]): string {
  const found = new Set(known.map(({ shares }) => JSON.stringify(shares))).size;
  return `a version needs measurements of at least ${LEAST_CANDIDATES} different sets of GPUs over several hosts; there are ${found}`;
}

function samplesOn(
  domain: BandwidthDomain,
  samples: readonly OrderedSample[],
): readonly GateSample[] {
  return samples.flatMap(({ gpus, gbs, messages, isStale }) => {
    const shares = candidateOf(domain, gpus);
    return shares === undefined
      ? []
      : [
          {
            shares,
            gbs,
            weight: isStale === true ? STALE_WEIGHT : 1,
            ...(messages !== undefined && { messages }),
          },
        ];
  });
}

const hashOf = (samples: readonly GateSample[]): string =>
  createHash("sha256").update(JSON.stringify(samples)).digest("hex");

/** Undefined when no usable version serves; a new version is then compared with the plain guess alone. */
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
