/**
 * @file The activities of a solver worker for the bandwidth model of a cluster: evaluate samples, train a version, publish one.
 *
 * The registry on disk is the truth about versions, so each activity reads it afresh. The cluster comes from the fleet and its measured
 * tables from the store, so a version is always used on the hosts as they are described now. `publishModel` refuses a version that
 * did not pass its gate.
 */

import { ApplicationFailure } from "@temporalio/common";
import { OrbweaverError } from "../domain/values/failure.ts";
import { modelDirOf, openRegistry, type ModelRegistry } from "../models/bandwidth/registry.ts";
import type { ModelActivities, ModelPlace } from "../protocol/model-contract.ts";
import { candidateOf, describeCluster, openVersion } from "./model-cluster.ts";
import { trainVersion, type TrainingPorts } from "./model-training.ts";

export interface ModelPorts extends TrainingPorts {
  /** The folder of the fleet's store, with the versions and the measured tables. */
  readonly storeDir: string;
  /** Sends a heartbeat of the activity. */
  readonly beat: () => void;
}

/** Newest versions that are kept, beside all versions that served. */
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

    async evaluationSamples({ version, samples, ...place }) {
      const cluster = await describeCluster(ports, place);
      const opened = await openVersion(registryOf(place), version, { learner, ...cluster }).catch(
        (error: unknown) => reasonOf(error),
      );
      if (typeof opened === "string") return { kind: "unusable", reason: opened };
      const fit = samples.map(({ gpus, messages }) => {
        const shares = candidateOf(cluster.domain, gpus);
        return shares && { shares, ...(messages !== undefined && { messages }) };
      });
      const known = fit.filter((asked) => asked !== undefined);
      const predicted = opened(known).values();
      return {
        kind: "evaluated",
        predictedGbs: fit.map((asked) => {
          const gbs = asked === undefined ? null : (predicted.next().value ?? null);
          return gbs !== null && Number.isFinite(gbs) ? gbs : null;
        }),
      };
    },

    async trainModel(training) {
      return await beating(beat, () => trainVersion(ports, registryOf(training), training));
    },

    async publishModel({ order, version, ...place }) {
      const registry = registryOf(place);
      const before = await registry.serving();
      // An earlier attempt did it and its answer was lost; a second rollback would go back one version too far.
      const isDone = before?.order === order;
      const wanted = isDone ? before.version : (version ?? before?.former.at(-1));
      if (wanted === undefined) {
        throw new OrbweaverError(
          "NOT_ALLOWED",
          `no version of the bandwidth model of ${place.cluster} served before ${before?.version ?? "any other"}, so there is nothing to roll back to. Name a version with --to, or train a new one.`,
        );
      }
      const note = await registry.publish({ version: wanted, order, nowMs: nowMs() });
      await registry.discard({ keepNewest: KEPT_VERSIONS, nowMs: nowMs() });
      return { version: note.version, generation: note.generation };
    },
  });
}

/** Sends heartbeats while the work runs. */
async function beating<Answer>(beat: () => void, work: () => Promise<Answer>): Promise<Answer> {
  const beats = setInterval(beat, BEAT_MS);
  beat();
  try {
    return await work();
  } finally {
    clearInterval(beats);
  }
}

/** Turns errors of ours into application failures whose type is their code. */
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
    evaluationSamples: coded(activities.evaluationSamples),
    trainModel: coded(activities.trainModel),
    publishModel: coded(activities.publishModel),
  };
}

const reasonOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);
