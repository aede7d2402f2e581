/**
 * @file Where each host stands on the map: sites and clusters as bands, racks as columns of hosts, a host as a row of GPUs. Pure.
 *
 * Takes the largest cells with which everything fits into the height, so a small fleet is large and one of 6,000 GPUs still has no scroll bar on a
 * desk's screen. Hosts without a rack stand in columns of eight. Below `SMALLEST_GPU` pixels a host is drawn as one bar.
 */

import type { HostRow } from "../wire.ts";

export interface HostBox {
  readonly x: number;
  readonly y: number;
}

export interface Label {
  readonly x: number;
  readonly y: number;
  readonly text: string;
  readonly kind: "cluster" | "rack";
}

export interface Layout {
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly height: number;
  /** In the order of the hosts. */
  readonly boxes: readonly HostBox[];
  readonly labels: readonly Label[];
}

/** Below this width GPUs are not told apart. */
export const SMALLEST_GPU = 3;
const LARGEST_GPU = 26;
const RACK_OF = 8;
const CLUSTER_LABEL = 22;
const RACK_LABEL = 13;
/** Racks have room for their names from this width of a cell on. */
const NAMED_FROM = 7;
const BAND_GAP = 10;

interface Rack {
  readonly name: string;
  readonly hosts: number[];
  readonly gpus: number;
}

interface Band {
  readonly text: string;
  readonly racks: readonly Rack[];
}

export function layOut(
  hosts: readonly { readonly id: string; readonly row: HostRow }[],
  { width, height }: { readonly width: number; readonly height: number },
): Layout {
  const bands = bandsOf(hosts);
  for (let cell = LARGEST_GPU; cell > 1; cell -= 1) {
    const laid = withCells(bands, { count: hosts.length, width, cell });
    if (laid !== undefined && laid.height <= height) return laid;
  }
  return withCells(bands, { count: hosts.length, width, cell: SMALLEST_GPU }) ?? NOTHING;
}

const NOTHING: Layout = { cellWidth: 1, cellHeight: 1, height: 0, boxes: [], labels: [] };

function bandsOf(
  hosts: readonly { readonly id: string; readonly row: HostRow }[],
): readonly Band[] {
  const clusters = new Map<string, { site: string; racks: Map<string, Rack>; loose: number }>();
  hosts.forEach(({ row }, at) => {
    const cluster = clusters.get(row.cluster) ?? { site: row.site, racks: new Map(), loose: 0 };
    clusters.set(row.cluster, cluster);
    const key = row.rack === "" ? ` ${Math.floor(cluster.loose / RACK_OF)}` : row.rack;
    if (row.rack === "") cluster.loose += 1;
    const rack = cluster.racks.get(key) ?? { name: row.rack, hosts: [], gpus: 0 };
    rack.hosts.push(at);
    cluster.racks.set(key, { ...rack, gpus: Math.max(rack.gpus, row.gpus) });
  });
  return [...clusters].map(([id, { site, racks }]) => ({
    text: site === "" || site === id ? id : `${id} · ${site}`,
    racks: [...racks.values()],
  }));
}

/** Undefined where not even one rack fits into the width. */
function withCells(
  bands: readonly Band[],
  { count, width, cell }: { readonly count: number; readonly width: number; readonly cell: number },
): Layout | undefined {
  const cellHeight = cell <= 4 ? cell + 2 : Math.round(cell * 1.3);
  const rackGap = Math.max(4, Math.round(cell * 0.8));
  const isNamed = cell >= NAMED_FROM;
  const boxes = new Array<HostBox>(count);
  const labels: Label[] = [];
  let y = 0;
  for (const { text, racks } of bands) {
    labels.push({ x: 0, y: y + CLUSTER_LABEL - 7, text, kind: "cluster" });
    y += CLUSTER_LABEL;
    let x = 0;
    let tallest = 0;
    for (const { name, hosts, gpus } of racks) {
      const rackWidth = gpus * cell;
      if (rackWidth > width) return undefined;
      if (x + rackWidth > width) {
        y += tallest + rackGap;
        [x, tallest] = [0, 0];
      }
      const top = isNamed && name !== "" ? RACK_LABEL : 0;
      if (top > 0) labels.push({ x, y: y + RACK_LABEL - 3, text: name, kind: "rack" });
      hosts.forEach((host, row) => (boxes[host] = { x, y: y + top + row * (cellHeight + 1) }));
      tallest = Math.max(tallest, top + hosts.length * (cellHeight + 1));
      x += rackWidth + rackGap;
    }
    y += tallest + BAND_GAP;
  }
  return { cellWidth: cell, cellHeight, height: y, boxes, labels };
}

/** The host and the GPU in it at a point. */
export function at(
  { boxes, cellWidth, cellHeight }: Layout,
  gpusOf: (host: number) => number,
  { x, y }: { readonly x: number; readonly y: number },
): { readonly host: number; readonly gpu: number } | undefined {
  for (let host = 0; host < boxes.length; host += 1) {
    const box = boxes[host];
    if (box === undefined || y < box.y || y >= box.y + cellHeight || x < box.x) continue;
    const gpu = Math.floor((x - box.x) / cellWidth);
    if (gpu < gpusOf(host)) return { host, gpu };
  }
  return undefined;
}
