/**
 * @file Where each host stands on the map: clusters side by side, racks as columns of hosts, a host as a row of GPUs. Pure.
 *
 * Takes the largest cells with which everything fits into the height, so a small fleet is large and one of 6,000 GPUs still has no scroll bar on a
 * desk's screen; `zoom` makes them larger, and the map longer. Hosts without a rack stand in columns of eight. From `NAMED_FROM` pixels on racks
 * have names, from `TOLD_FROM` on hosts and jobs have; below `SMALLEST_GPU` a host is drawn as one bar.
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
  readonly kind: "cluster" | "rack" | "host";
}

export interface Layout {
  readonly cellWidth: number;
  readonly cellHeight: number;
  readonly height: number;
  /** In the order of the hosts. */
  readonly boxes: readonly HostBox[];
  readonly labels: readonly Label[];
}

export interface Room {
  readonly width: number;
  readonly height: number;
  /** From 1; by default 1, with which everything is in sight. */
  readonly zoom?: number;
}

/** Below this width GPUs are not told apart. */
export const SMALLEST_GPU = 3;
/** From this width of a cell on there is room for the names of hosts and jobs. */
export const TOLD_FROM = 15;
const LARGEST_GPU = 32;
const LARGEST_ZOOMED = 64;
const RACK_OF = 8;
const CLUSTER_LABEL = 24;
const RACK_LABEL = 13;
/** Racks have room for their names from this width of a cell on. */
const NAMED_FROM = 5;
const BAND_GAP = 12;
const CLUSTER_GAP = 28;
/** Of a letter of a label. */
const LETTER = 7.5;
const HOST_LETTER = 6;
/** A cell's height for its width: where there is room, hosts are drawn taller. */
const SHAPES = [1.3, 1.6, 2] as const;

interface Rack {
  readonly name: string;
  readonly hosts: number[];
  readonly gpus: number;
}

interface Band {
  readonly text: string;
  readonly racks: readonly Rack[];
}

interface Cell {
  readonly width: number;
  readonly height: number;
  /** Of the names of hosts, beside each rack. */
  readonly names: number;
}

type Hosts = readonly { readonly id: string; readonly row: HostRow }[];

export function layOut(hosts: Hosts, { width, height, zoom = 1 }: Room): Layout {
  const bands = bandsOf(hosts);
  const told = hosts.map(({ id, row }) => nameIn(id, row));
  const names = 8 + HOST_LETTER * Math.max(0, ...told.map(({ length }) => length));
  const tried = (cell: number, shape: number): Layout | undefined =>
    withCells(bands, {
      ...{ told, width },
      cell: {
        width: cell,
        height: Math.round(cell * shape),
        names: cell >= TOLD_FROM ? names : 0,
      },
    });
  const [flat] = SHAPES;
  const fits = fitting((cell) => (tried(cell, flat)?.height ?? Infinity) <= height);
  if (zoom > 1) {
    for (let cell = Math.min(LARGEST_ZOOMED, Math.round(fits * zoom)); cell >= fits; cell -= 1) {
      const laid = tried(cell, flat);
      if (laid !== undefined) return laid;
    }
  }
  const shapes = SHAPES.map((shape) => tried(fits, shape)).filter((laid) => laid !== undefined);
  return shapes.filter((laid) => laid.height <= height).at(-1) ?? shapes[0] ?? NOTHING;
}

/** The largest cell that does. */
function fitting(does: (cell: number) => boolean): number {
  for (let cell = LARGEST_GPU; cell > SMALLEST_GPU; cell -= 1) if (does(cell)) return cell;
  return SMALLEST_GPU;
}

const NOTHING: Layout = { cellWidth: 1, cellHeight: 1, height: 0, boxes: [], labels: [] };

/** Without its cluster, which stands above. */
const nameIn = (id: string, { cluster }: HostRow): string =>
  id.startsWith(`${cluster}/`) ? id.slice(cluster.length + 1) : id;

function bandsOf(hosts: Hosts): readonly Band[] {
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
  {
    told,
    width,
    cell,
  }: { readonly told: readonly string[]; readonly width: number; readonly cell: Cell },
): Layout | undefined {
  const rackGap = Math.max(4, Math.round(cell.width * 0.8));
  const boxes = new Array<HostBox>(told.length);
  const labels: Label[] = [];
  const shelf = { x: 0, y: 0, bottom: 0 };
  for (const { text, racks } of bands) {
    const widths = racks.map(({ gpus }) => cell.names + gpus * cell.width);
    if (Math.max(0, ...widths) > width) return undefined;
    const inOneRow = widths.reduce((sum, one) => sum + one + rackGap, -rackGap);
    const bandWidth = Math.max(inOneRow, text.length * LETTER);
    if (shelf.x > 0 && shelf.x + bandWidth > width)
      [shelf.x, shelf.y] = [0, shelf.bottom + BAND_GAP];
    labels.push({ x: shelf.x, y: shelf.y + CLUSTER_LABEL - 9, text, kind: "cluster" });
    const placed = placeRacks(racks, {
      ...{ told, cell, rackGap, widths, boxes, labels },
      from: { x: shelf.x, y: shelf.y + CLUSTER_LABEL },
      right: shelf.x + bandWidth > width ? width : shelf.x + bandWidth,
    });
    shelf.x += bandWidth + CLUSTER_GAP;
    shelf.bottom = Math.max(shelf.bottom, placed);
  }
  return {
    cellWidth: cell.width,
    cellHeight: cell.height,
    height: shelf.bottom + 2,
    boxes,
    labels,
  };
}

/** Fills in boxes and labels; returns where the racks of the cluster end. */
function placeRacks(
  racks: readonly Rack[],
  of: {
    readonly told: readonly string[];
    readonly cell: Cell;
    readonly rackGap: number;
    readonly widths: readonly number[];
    readonly from: HostBox;
    readonly right: number;
    readonly boxes: HostBox[];
    readonly labels: Label[];
  },
): number {
  const { told, cell, rackGap, widths, from, right, boxes, labels } = of;
  let { x, y } = from;
  let tallest = 0;
  racks.forEach(({ name, hosts }, at) => {
    const rackWidth = widths[at] ?? 0;
    if (x > from.x && x + rackWidth > right) {
      y += tallest + rackGap;
      [x, tallest] = [from.x, 0];
    }
    const top = cell.width >= NAMED_FROM && name !== "" ? RACK_LABEL : 0;
    const left = x + cell.names;
    if (top > 0) labels.push({ x: left, y: y + RACK_LABEL - 3, text: name, kind: "rack" });
    hosts.forEach((host, row) => {
      const box = { x: left, y: y + top + row * (cell.height + 1) };
      boxes[host] = box;
      if (cell.names > 0)
        labels.push({ x, y: box.y + cell.height / 2 + 4, text: told[host] ?? "", kind: "host" });
    });
    tallest = Math.max(tallest, top + hosts.length * (cell.height + 1));
    x += rackWidth + rackGap;
  });
  return y + tallest;
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
