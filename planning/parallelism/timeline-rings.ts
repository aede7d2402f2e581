/** @file The sums of gradients of a played step: each edge of a stage's ring is a flow when its replicas are done, then those of its experts' rings, then tied embeddings. */

import { expertRings, ringLatencyMs, ringOf, stageCells, type Ring } from "./gradient-rings.ts";
import { eachLink } from "./site-links.ts";
import type { Paths, Stage } from "./timeline-stage.ts";

interface RingBytes {
  readonly members: number;
  /** Whether a replica is in the ring. */
  readonly of: (replica: number) => boolean;
  /** Over each edge but for the factor (k − 1)/k. */
  readonly bytes: number;
}

/** Called with each stage whose replicas have done their last backward. */
export function gradientSums(stage: Stage): (at: number) => void {
  const { task, site, paths, actor, wait, move } = stage;
  const { replicas, stages, stageBytes, expertBytes, tiedBytes, rounds = 1, experts = 1 } = task;
  let ends = 0;
  const tied = (at: number): void => {
    if (stages === 1 || tiedBytes === 0 || (at !== 0 && at !== stages - 1)) return;
    ends += 1;
    if (ends < 2) return;
    for (let replica = 0; replica < replicas; replica += 1) {
      const last = (stages - 1) * replicas + replica;
      for (const { links, latencyMs } of [
        paths.between(replica, last),
        paths.between(last, replica),
      ]) {
        const own = actor();
        wait(own, 2 * latencyMs, () => {
          move(own, { links, bytes: tiedBytes }, () => undefined);
        });
      }
    }
  };
  return (at) => {
    if (replicas === 1) {
      tied(at);
      return;
    }
    const first = at * replicas;
    const cells = stageCells(task, at);
    const around = (ring: Ring, { members, of, bytes }: RingBytes, next: () => void): void => {
      const edges = ringEdges(
        ring,
        paths,
        (host) => first + cells.findIndex((unit, replica) => unit.host === host && of(replica)),
      );
      let open = edges.length;
      for (const links of edges) {
        const own = actor();
        move(own, { links, bytes: ((members - 1) / members) * bytes }, () => {
          open -= 1;
          if (open === 0) wait(own, 2 * rounds * ringLatencyMs(ring, site), next);
        });
      }
    };
    const common = { members: replicas, of: () => true, bytes: stageBytes[at] ?? 0 };
    around(ringOf(cells, site, paths.links), common, () => {
      const rings = expertRings(task, { stage: at, site, links: paths.links });
      let open = rings.length;
      if (open === 0) tied(at);
      for (const { ring, members, part } of rings) {
        const of = (replica: number): boolean => replica % experts === part;
        around(ring, { members, of, bytes: expertBytes[at] ?? 0 }, () => {
          open -= 1;
          if (open === 0) tied(at);
        });
      }
    });
  };
}

/** The links of each edge. Edges between members of a host are alike: one of them stands for all. */
function ringEdges(
  { hosts, members }: Ring,
  { links, portOf }: Paths,
  cellOn: (host: number) => number,
): readonly (readonly number[])[] {
  const edges: number[][] = [];
  for (const [at, host] of hosts.entries()) {
    if ((members[at] ?? 0) > 1) {
      const edge: number[] = [];
      eachLink(links, [host, host], (link) => edge.push(link));
      const cell = cellOn(host);
      edges.push(edge.length > 0 ? edge : [portOf(cell), portOf(cell) + 1]);
    }
    const next = hosts[(at + 1) % hosts.length] ?? host;
    if (next === host) continue;
    const edge: number[] = [];
    eachLink(links, [host, next], (link) => edge.push(link));
    edges.push(edge);
  }
  return edges;
}
