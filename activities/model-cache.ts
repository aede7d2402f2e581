/**
 * @file Keeps the bandwidth models that decisions use open: a version that a snapshot names is read from the store once.
 *
 * A predictor depends on a version, on the hosts as the snapshot describes them, and on their measured tables; it stays open
 * while none of the three changes. A version that cannot be opened throws the reason when it is used, and is tried again later;
 * decisions then use compact placement. Only the versions of the newest snapshot are kept. The learner is loaded when the first
 * snapshot names a version, so a fleet without models pays nothing.
 */

import type { BandwidthDomain, BandwidthPredictor } from "../domain/bandwidth/bandwidth-port.ts";
import type { ClusterId, HostId } from "../domain/values/ids.ts";
import type { HostDetails } from "../domain/fleet/fleet.ts";
import type { Learner } from "../models/bandwidth/learner.ts";
import { clusterDomain } from "../models/bandwidth/lookup.ts";
import { modelDirOf, openRegistry } from "../models/bandwidth/registry.ts";
import type { Ledger } from "../scheduling/ledger/ledger.ts";

export type PredictorOf = (cluster: ClusterId) => BandwidthPredictor | undefined;

export interface ModelCache {
  /** For one decision; throws for a cluster whose version cannot be used. */
  predictorsFor(
    snapshot: Pick<Ledger, "shape" | "detailsHash" | "models">,
    details: ReadonlyMap<HostId, HostDetails>,
  ): Promise<PredictorOf>;
}

type Opened =
  | { readonly kind: "open"; readonly key: string; readonly predictor: BandwidthPredictor }
  | {
      readonly kind: "broken";
      readonly key: string;
      readonly reason: string;
      readonly untilMs: number;
    };

const TRY_AGAIN_MS = 30_000;

export function createModelCache(
  storeDir: string,
  {
    learner = theSurrogate,
    nowMs = () => performance.now(),
  }: { readonly learner?: () => Promise<Learner>; readonly nowMs?: () => number } = {},
): ModelCache {
  let modelCache: ReadonlyMap<ClusterId, Opened> = new Map();

  async function open(
    cluster: string,
    version: string,
    domain: () => BandwidthDomain,
  ): Promise<BandwidthPredictor> {
    const registry = openRegistry(modelDirOf(storeDir, cluster));
    const manifest = await registry.manifest(version);
    if (manifest === undefined) throw new Error(`there is no ${version} in ${registry.dir}`);
    const files = await registry.files(manifest);
    const by = await learner();
    if (manifest.learner !== by.name)
      throw new Error(`its learner is ${manifest.learner}, but this release has ${by.name}`);
    return by.open(files, { domain: domain(), version });
  }

  return {
    async predictorsFor({ shape, detailsHash, models }, details) {
      const next = new Map<ClusterId, Opened>();
      for (const [id, { version }] of models ?? []) {
        const cluster = shape.clusters.find((each) => each.id === id);
        if (cluster === undefined) continue;
        const hosts = cluster.hosts.map(({ id: host, gpuCount, gpuType, rack }) => [
          host,
          gpuCount,
          gpuType,
          rack,
        ]);
        const key = JSON.stringify([version, detailsHash, hosts]);
        const former = modelCache.get(id);
        const isGood = former?.key === key && (former.kind === "open" || nowMs() < former.untilMs);
        next.set(
          id,
          isGood
            ? former
            : await open(id, version, () => clusterDomain(cluster, details)).then(
                (predictor): Opened => ({ kind: "open", key, predictor }),
                (error: unknown): Opened => ({
                  kind: "broken",
                  key,
                  reason: `model ${version} cannot be used: ${error instanceof Error ? error.message : String(error)}`,
                  untilMs: nowMs() + TRY_AGAIN_MS,
                }),
              ),
        );
      }
      modelCache = next;
      return (cluster) => {
        const found = next.get(cluster);
        if (found?.kind === "broken") throw new Error(found.reason);
        return found?.predictor;
      };
    },
  };
}

const theSurrogate = async (): Promise<Learner> =>
  (await import("../models/bandwidth/surrogate-learner.ts")).surrogateLearner;
