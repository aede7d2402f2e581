/**
 * @file The versions of bandwidth models that decisions use, opened once each: what a snapshot names is read from the store and kept.
 *
 * A predictor belongs to a version, to the hosts as the snapshot describes them, and to their measured tables; while none of the three
 * changes it stays open. One that cannot be opened throws when it is asked for, with the reason, and is tried again after a while;
 * decisions then take the compact answer. Only the versions of the newest snapshot are kept.
 * The learner is loaded when the first snapshot names a version: a fleet without models pays nothing for it.
 */

import type { BandwidthDomain, BandwidthPredictor } from "../domain/bandwidth-port.ts";
import type { ClusterId, HostId } from "../domain/ids.ts";
import type { HostDetails } from "../domain/fleet.ts";
import type { Learner } from "../models/learner.ts";
import { clusterDomain } from "../models/lookup.ts";
import { modelDirOf, openRegistry } from "../models/registry.ts";
import type { Ledger } from "../scheduling/ledger.ts";

export type PredictorOf = (cluster: ClusterId) => BandwidthPredictor | undefined;

export interface ModelShelf {
  /** For one decision; throws when it is asked for a cluster whose version cannot be used. */
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

export function createModelShelf(
  storeDir: string,
  {
    learner = theSurrogate,
    nowMs = () => performance.now(),
  }: { readonly learner?: () => Promise<Learner>; readonly nowMs?: () => number } = {},
): ModelShelf {
  let shelf: ReadonlyMap<ClusterId, Opened> = new Map();

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
      throw new Error(`it was made by ${manifest.learner}, and this release has ${by.name}`);
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
        const former = shelf.get(id);
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
      shelf = next;
      return (cluster) => {
        const found = next.get(cluster);
        if (found?.kind === "broken") throw new Error(found.reason);
        return found?.predictor;
      };
    },
  };
}

const theSurrogate = async (): Promise<Learner> =>
  (await import("../models/surrogate-learner.ts")).surrogateLearner;
