/**
 * @file The time in which the replicas of all stages add up their gradients, when the rings of all stages share the site's links.
 *
 * Each stage's replicas form a ring (Patarasuk and Yuan 2009): members of a host follow one another, then hosts of a cluster, then clusters, each
 * joined to the one that it reaches fastest among those left. With k members every edge of the ring carries (k − 1)/k of the bytes for the sums
 * and as much again to hand them out: for an all-reduce as gradients, with a sharded optimiser as 16-bit parameters. Where replicas share out
 * experts, those that have the same ones follow with a ring each. The rings of all stages may be under way at once, so an edge has at least
 * rate ÷ edges of each link that it crosses. An output layer that is tied to the embedding adds the sum
 * between the first and the last stage, after the rings. Latency: each edge twice. Cost: O(cells + clusters²) for a list of cells, O(rings)
 * for each further split that is laid on the same cells.
 */

import { keptOfCells } from "./kept-of-cells.ts";
import { wayBetween, type PlanSite, type Unit } from "./site.ts";
import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";

export interface GradientTask {
  readonly replicas: number;
  readonly stages: number;
  readonly width: number;
  readonly cells: readonly Unit[];
  /** Over one edge of the ring but for the factor (k − 1)/k: sums and results together. */
  readonly stageBytes: readonly number[];
  /** Replicas that share out experts: those a whole number of groups apart have the same ones, and a ring of their own after that of all. */
  readonly experts?: number;
  /** The same as `stageBytes`, of the experts that a replica has; 0 where each has all. */
  readonly expertBytes: readonly number[];
  /** How often each half of a ring's work goes around, for its latency; 1 where it is done once a step. */
  readonly rounds?: number;
  /** Of the embedding, summed between the first and the last stage; 0 where nothing is tied. */
  readonly tiedBytes: number;
}

export function gradientMs(task: GradientTask, site: PlanSite): number {
  const { replicas, stages, width, experts = 1, cells, expertBytes } = task;
  const own = experts === 1 ? "" : expertBytes.map((bytes) => (bytes === 0 ? "-" : "+")).join("");
  const key = `${stages}/${replicas}/${width}/${experts}/${own}`;
  const links = linksOf(site);
  const ringMs =
    replicas === 1
      ? 0
      : ringsMs(
          task,
          rings({ site, cells, key }, () => ratesOf(task, site, links)),
        );
  if (stages === 1 || task.tiedBytes === 0) return ringMs;
  let tiedMs = 0;
  for (const { gbs, latencyMs } of tied({ site, cells, key }, () => tiedRates(task, site, links)))
    tiedMs = Math.max(tiedMs, task.tiedBytes / (gbs * 1e6) + 2 * latencyMs);
  return ringMs + tiedMs;
}

/** What an edge gets, and the latency of once around. */
interface RingRate {
  readonly gbs: number;
  readonly latencyMs: number;
}

interface StageRates {
  readonly common: RingRate;
  readonly experts: readonly (RingRate & { readonly members: number })[];
}

const rings = keptOfCells<readonly StageRates[]>();
const tied = keptOfCells<readonly RingRate[]>();

export interface Ring {
  /** Hosts of its members, in order around the ring. */
  readonly hosts: readonly number[];
  /** Members of each of these hosts. */
  readonly members: readonly number[];
}

function ringsMs(
  { replicas, stageBytes, expertBytes, rounds = 1 }: GradientTask,
  stages: readonly StageRates[],
): number {
  const edgeMs = ({ gbs, latencyMs }: RingRate, bytes: number): number =>
    bytes / (gbs * 1e6) + 2 * rounds * latencyMs;
  let slowest = 0;
  for (const [stage, { common, experts }] of stages.entries()) {
    const ofExperts = experts.map((ring) =>
      edgeMs(ring, ((ring.members - 1) / ring.members) * (expertBytes[stage] ?? 0)),
    );
    const ofAll = edgeMs(common, ((replicas - 1) / replicas) * (stageBytes[stage] ?? 0));
    slowest = Math.max(slowest, ofAll + Math.max(0, ...ofExperts));
  }
  return slowest;
}

function ratesOf(task: GradientTask, site: PlanSite, links: SiteLinks): readonly StageRates[] {
  const ofStages = Array.from({ length: task.stages }, (_, stage) => ({
    common: ringOf(stageCells(task, stage), site, links),
    experts: expertRings(task, { stage, site, links }),
  }));
  const edges = edgesOn(ofStages, links);
  const rateOf = (ring: Ring): RingRate => ringRate(ring, { edges, task, site, links });
  return ofStages.map(({ common, experts }) => ({
    common: rateOf(common),
    experts: experts.map(({ members, ring }) => ({ members, ...rateOf(ring) })),
  }));
}

export const stageCells = ({ replicas, cells }: GradientTask, stage: number): readonly Unit[] =>
  cells.slice(stage * replicas, (stage + 1) * replicas);

/** A ring for each part of the experts; none where no two replicas have the same. */
export function expertRings(
  task: GradientTask,
  {
    stage,
    site,
    links,
  }: { readonly stage: number; readonly site: PlanSite; readonly links: SiteLinks },
): readonly { readonly members: number; readonly part: number; readonly ring: Ring }[] {
  const { experts = 1, replicas, expertBytes } = task;
  if (experts === 1 || experts === replicas || expertBytes[stage] === 0) return [];
  const cells = stageCells(task, stage);
  return Array.from({ length: experts }, (_, part) => {
    const same = cells.filter((__, replica) => replica % experts === part);
    return { members: same.length, part, ring: ringOf(same, site, links) };
  });
}

/** Of each link: the edges that may cross it at once. A stage has either its one ring under way or those of its experts. */
function edgesOn(
  rings: readonly { readonly common: Ring; readonly experts: readonly { readonly ring: Ring }[] }[],
  links: SiteLinks,
): Int32Array {
  const edges = new Int32Array(links.count);
  const add = (link: number): void => {
    edges[link] = (edges[link] ?? 0) + 1;
  };
  for (const { common, experts } of rings) {
    if (experts.length === 0) {
      eachRingLink(common, links, add);
      continue;
    }
    const ofStage = new Map<number, readonly [common: number, experts: number]>();
    eachRingLink(common, links, (link) => {
      const [one, other] = ofStage.get(link) ?? [0, 0];
      ofStage.set(link, [one + 1, other]);
    });
    for (const { ring } of experts)
      eachRingLink(ring, links, (link) => {
        const [one, other] = ofStage.get(link) ?? [0, 0];
        ofStage.set(link, [one, other + 1]);
      });
    for (const [link, counts] of ofStage) edges[link] = (edges[link] ?? 0) + Math.max(...counts);
  }
  return edges;
}

interface RingSetting {
  readonly edges: Int32Array;
  readonly task: GradientTask;
  readonly site: PlanSite;
  readonly links: SiteLinks;
}

function ringRate(ring: Ring, { edges, task, site, links }: RingSetting): RingRate {
  // GB/s that an edge has, over the links that are shared, and over ports of NVLink for a part of the unit's bytes.
  let gbs = Infinity;
  eachRingLink(ring, links, (link) => {
    gbs = Math.min(gbs, (links.gbs[link] ?? 0) / (edges[link] ?? 1));
  });
  for (const [at, host] of ring.hosts.entries()) {
    const inside = site.hosts[host]?.inside;
    if (inside !== undefined && links.hasBus[host] === 0 && (ring.members[at] ?? 0) > 1)
      gbs = Math.min(gbs, inside.gbs * task.width);
  }
  return { gbs, latencyMs: ringLatencyMs(ring, site) };
}

/** The shared links of a ring's edges; the bus of a host once, because the ring of its members is one flow along it. */
function eachRingLink(
  { hosts, members }: Ring,
  links: SiteLinks,
  visit: (link: number) => void,
): void {
  for (const [at, host] of hosts.entries()) {
    if ((members[at] ?? 0) > 1) eachLink(links, [host, host], visit);
    const next = hosts[(at + 1) % hosts.length] ?? host;
    if (next !== host) eachLink(links, [host, next], visit);
  }
}

/** Once around. */
export function ringLatencyMs({ hosts, members }: Ring, site: PlanSite): number {
  let sum = 0;
  for (const [at, number] of hosts.entries()) {
    const host = site.hosts[number];
    const next = site.hosts[hosts[(at + 1) % hosts.length] ?? number];
    if (host === undefined || next === undefined) continue;
    // The last member's edge leads to the next host, or back to the first member.
    sum += ((members[at] ?? 1) - 1) * host.inside.latencyMs;
    sum += wayBetween(site, host, next).latencyMs;
  }
  return sum;
}

export function ringOf(units: readonly Unit[], site: PlanSite, links: SiteLinks): Ring {
  const [hosts, members]: [number[], number[]] = [[], []];
  let isOneCluster = true;
  for (const { host } of units) {
    // Units of a host mostly follow one another.
    const at = host === hosts.at(-1) ? hosts.length - 1 : hosts.indexOf(host);
    if (at >= 0) {
      members[at] = (members[at] ?? 0) + 1;
      continue;
    }
    isOneCluster &&= links.clusterOf[host] === links.clusterOf[hosts[0] ?? host];
    hosts.push(host);
    members.push(1);
  }
  if (isOneCluster) return { hosts, members };
  const byCluster = new Map<number, number[]>();
  for (const [at, host] of hosts.entries()) {
    const cluster = links.clusterOf[host] ?? 0;
    const held = byCluster.get(cluster);
    if (held === undefined) byCluster.set(cluster, [at]);
    else held.push(at);
  }
  const order = clustersInOrder([...byCluster.keys()], site, links).flatMap(
    (cluster) => byCluster.get(cluster) ?? [],
  );
  return { hosts: order.map((at) => hosts[at] ?? 0), members: order.map((at) => members[at] ?? 0) };
}

/** From the first one, each joined to the one that it reaches fastest among those left. */
function clustersInOrder(
  clusters: readonly number[],
  site: PlanSite,
  links: SiteLinks,
): readonly number[] {
  const [first, ...left] = clusters;
  if (first === undefined || left.length < 2) return clusters;
  const gbsFrom = (from: number, to: number): number =>
    site.between(links.clusters[from] ?? "", links.clusters[to] ?? "").gbs;
  const order = [first];
  let at = first;
  while (left.length > 0) {
    let best = 0;
    for (const [place, cluster] of left.entries())
      if (gbsFrom(at, cluster) > gbsFrom(at, left[best] ?? at)) best = place;
    at = left.splice(best, 1)[0] ?? at;
    order.push(at);
  }
  return order;
}

/** Every replica's first and last stage sum the embedding's gradients, all at once, both ways. */
function tiedRates(
  { replicas, stages, width, cells }: GradientTask,
  site: PlanSite,
  links: SiteLinks,
): readonly RingRate[] {
  const flows = new Int32Array(links.count);
  const last = (stages - 1) * replicas;
  const pairs = Array.from({ length: replicas }, (_, replica) => ({
    a: cells[replica]?.host ?? 0,
    b: cells[last + replica]?.host ?? 0,
  }));
  const both = (a: number, b: number, visit: (link: number) => void): void => {
    eachLink(links, [a, b], visit);
    eachLink(links, [b, a], visit);
  };
  for (const { a, b } of pairs)
    both(a, b, (link) => {
      flows[link] = (flows[link] ?? 0) + 1;
    });
  const found = new Map<string, RingRate>();
  for (const { a, b } of pairs) {
    let [gbs, latencyMs] = [Infinity, 0];
    both(a, b, (link) => {
      gbs = Math.min(gbs, (links.gbs[link] ?? 0) / (flows[link] ?? 1));
      latencyMs = Math.max(latencyMs, links.latencyMs[link] ?? 0);
    });
    const inside = site.hosts[a]?.inside;
    if (gbs === Infinity && inside !== undefined) {
      gbs = inside.gbs * width;
      ({ latencyMs } = inside);
    }
    found.set(`${gbs}/${latencyMs}`, { gbs, latencyMs });
  }
  return [...found.values()];
}
