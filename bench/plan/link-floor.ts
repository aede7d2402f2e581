/**
 * @file The least time in which a split's bytes pass over its busiest link: network cards, links between clusters, buses without NVLink. Imports nothing
 * of the planner but types.
 *
 * Counted on every link in each direction: activations and their gradients of all micro-batches, tokens to the experts that replicas share out and back, keys and values
 * of units that share out sequences, where they leave a host or a cluster and come into one, one
 * edge of each stage's ring where it leaves a host or a cluster (2 (k − 1)/k of the gradients, or half of it as 16-bit parameters), the same of the rings
 * of experts, and tied embeddings both ways.
 */

import {
  exchangedBytes,
  expertParameters,
  keyValueTraffic,
  ringTraffic,
  stageLayers,
  type SimulatedPlan,
} from "./simulated-plan.ts";

export function linkFloorMs(plan: SimulatedPlan): number {
  const { model, site, split, gradientBytes } = plan;
  const { replicas, stages, microBatches, bounds, cells, experts = 1, contexts = 1 } = split;
  const microBatch = split.microBatch / contexts;
  const busyMs = new Map<string, number>();
  const carry = (link: string, bytes: number, gbs: number): void => {
    busyMs.set(link, (busyMs.get(link) ?? 0) + bytes / (gbs * 1e6));
  };
  const cross = (a: number, b: number, bytes: number): void => {
    const [from, to] = [site.hosts[a], site.hosts[b]];
    if (from === undefined || to === undefined) throw new Error("a cell has no host");
    if (a === b) {
      if (from.nvlinkGpus === 1) carry(`bus ${String(a)}`, bytes, from.inside.gbs);
      return;
    }
    carry(`out of ${String(a)}`, bytes, site.fabric(from.cluster).gbs);
    carry(`into ${String(b)}`, bytes, site.fabric(to.cluster).gbs);
    if (from.cluster !== to.cluster)
      carry(`${from.cluster} to ${to.cluster}`, bytes, site.between(from.cluster, to.cluster).gbs);
  };
  const hostOf = (stage: number, replica: number): number =>
    cells[stage * replicas + replica]?.host ?? -1;
  const ring = (members: readonly number[], parameters: number): void => {
    around(members, (parameters * ringTraffic(plan).bytes * (members.length - 1)) / members.length);
  };
  const around = (members: readonly number[], edge: number): void => {
    const hosts = [...new Set(members)];
    for (const host of hosts) {
      const card = site.fabric(site.hosts[host]?.cluster ?? "").gbs;
      if (hosts.length === 1) continue;
      carry(`out of ${String(host)}`, edge, card);
      carry(`into ${String(host)}`, edge, card);
    }
    ringOverSites(hosts.map((host) => site.hosts[host]?.cluster ?? "")).forEach(([from, to]) => {
      carry(`${from} to ${to}`, edge, site.between(from, to).gbs);
    });
  };
  // A micro-batch goes from run to run, and from the last stage's back to the first where there are more.
  const runs = bounds.length - 1;
  for (let run = 0; run < runs; run += 1) {
    const stage = run % stages;
    const after = (run + 1) % stages;
    const sent =
      (model.layers[(bounds[run + 1] ?? 0) - 1]?.outputBytes ?? 0) * microBatch * microBatches;
    for (let replica = 0; replica < replicas && run + 1 < runs; replica += 1) {
      cross(hostOf(stage, replica), hostOf(after, replica), sent);
      cross(hostOf(after, replica), hostOf(stage, replica), sent);
    }
    const keyValues = keyValueTraffic(plan, run);
    for (let first = 0; first < replicas; first += contexts) {
      const members = Array.from({ length: contexts }, (_, at) => hostOf(stage, first + at));
      around(members, microBatches * (keyValues.forward + keyValues.backward));
    }
    const { forward, backward } = exchangedBytes(plan, run);
    for (let replica = 0; replica < replicas; replica += 1)
      for (let other = 0; other < replicas; other += 1)
        if (other !== replica && Math.floor(other / experts) === Math.floor(replica / experts))
          cross(hostOf(stage, replica), hostOf(stage, other), microBatches * (forward + backward));
  }
  for (let stage = 0; stage < stages; stage += 1) {
    const layers = stageLayers(plan, stage);
    if (replicas === 1) continue;
    const isTied = stage > 0 && stage === stages - 1;
    const ofExperts = expertParameters(plan, stage);
    const parameters =
      layers.reduce((sum, layer) => sum + layer.parameters, 0) +
      (isTied ? (model.tiedParameters ?? 0) : 0);
    ring(
      Array.from({ length: replicas }, (_, at) => hostOf(stage, at)),
      parameters - ofExperts,
    );
    for (let part = 0; part < experts && ofExperts > 0; part += 1) {
      const members = Array.from({ length: replicas / experts }, (_, at) =>
        hostOf(stage, at * experts + part),
      );
      ring(members, ofExperts / experts);
    }
  }
  const tied = gradientBytes * (model.tiedParameters ?? 0);
  for (let replica = 0; replica < replicas && stages > 1; replica += 1) {
    cross(hostOf(0, replica), hostOf(stages - 1, replica), tied);
    cross(hostOf(stages - 1, replica), hostOf(0, replica), tied);
  }
  return Math.max(0, ...busyMs.values());
}

/** With two clusters the ring's ways are certain; with more they depend on its order, and each cluster is left once at least by some link. */
function ringOverSites(clusters: readonly string[]): readonly (readonly [string, string])[] {
  const [a, b, ...more] = [...new Set(clusters)];
  return a === undefined || b === undefined || more.length > 0
    ? []
    : [
        [a, b],
        [b, a],
      ];
}
