/**
 * @file Plays one training step on a site's links: each send, ring and tied embedding at its max–min fair rate, from the first to the last.
 *
 * The bound of step-time.ts lets all sends of a link collide; here they collide only when the schedule makes them. A unit works through its
 * 1F1B order and is busy while it sends, or exchanges tokens with those with which it shares out experts; an operation starts when its input has arrived. Each edge of a
 * stage's ring starts as a flow when its replicas are done, then those of its experts' rings; tied embeddings follow the rings of the first and the last stage. Cost: for each moment at
 * which something changes, O(units) and the filling of fair-rates.ts.
 */

import { fillRates, type Flow } from "./fair-rates.ts";
import { groupOf, type PassBytes } from "./expert-exchange.ts";
import {
  expertRings,
  ringLatencyMs,
  ringOf,
  stageCells,
  type GradientTask,
  type Ring,
} from "./gradient-rings.ts";
import { aheadOf, operation } from "./pipeline-time.ts";
import { eachLink, linksOf, type SiteLinks } from "./site-links.ts";
import type { PlanSite } from "./site.ts";

export interface TimelineTask extends GradientTask {
  readonly microBatches: number;
  /** Of each stage (split.ts); 1 where absent. */
  readonly runs?: number;
  /** Of a micro-batch, by run × replicas + replica. */
  readonly forwardMs: Float64Array;
  readonly backwardMs: Float64Array;
  /** Of a micro-batch behind each run. */
  readonly sendBytes: readonly number[];
  /** Of a micro-batch and run: what a unit sends to each other of those with which it shares out experts, and how often in a forward pass. */
  readonly exchanges: readonly (PassBytes & { readonly calls: number })[];
}

export interface Timeline {
  readonly totalMs: number;
  /** When the last backward ends. */
  readonly pipelineMs: number;
  /** What the sends of each cell took. */
  readonly sendMs: Float64Array;
  /** What the exchanges of each cell took. */
  readonly exchangeMs: Float64Array;
}

/** A unit, a stage's ring or a replica's tied embedding: it waits for time, or for bytes. */
interface Actor {
  /** Infinity where it waits for no time. */
  wakesAt: number;
  flow: Flow | undefined;
  /** What follows when the time has come, or when the bytes have arrived. */
  next: () => void;
}

export function playStep(task: TimelineTask, site: PlanSite): Timeline {
  const clock = { nowMs: 0 };
  const actors: Actor[] = [];
  const paths = pathsOf(task, site);
  const isDirty = { value: false };
  const actor = (): Actor => {
    const made: Actor = { wakesAt: Infinity, flow: undefined, next: () => undefined };
    actors.push(made);
    return made;
  };
  const stage: Stage = {
    task,
    site,
    paths,
    clock,
    actor,
    wait: (of, ms, next) => {
      of.wakesAt = clock.nowMs + ms;
      of.next = next;
    },
    move: (of, { links, bytes }, next) => {
      of.flow = { links, left: bytes, rate: 0 };
      of.next = next;
      isDirty.value = true;
    },
  };
  const { sendMs, exchangeMs, pipeline } = startUnits(stage);
  for (;;) {
    if (isDirty.value) fillRates(flowsOf(actors), paths.bytesPerMs);
    isDirty.value = false;
    const next = nextMoment(actors, clock.nowMs);
    if (next === Infinity) break;
    const ready: Actor[] = [];
    for (const of of actors) {
      if (of.flow !== undefined) {
        of.flow.left -= of.flow.rate * (next - clock.nowMs);
        if (of.flow.left > ROUNDING * of.flow.rate * (1 + next)) continue;
        of.flow = undefined;
        isDirty.value = true;
        ready.push(of);
      } else if (of.wakesAt <= next) {
        of.wakesAt = Infinity;
        ready.push(of);
      }
    }
    clock.nowMs = next;
    for (const { next: follow } of ready) follow();
  }
  return { totalMs: clock.nowMs, pipelineMs: pipeline.endMs, sendMs, exchangeMs };
}

/** Of a flow's time; bytes that would take less are rounding. */
const ROUNDING = 1e-12;

const flowsOf = (actors: readonly Actor[]): readonly Flow[] =>
  actors.flatMap(({ flow }) => flow ?? []);

function nextMoment(actors: readonly Actor[], nowMs: number): number {
  let next = Infinity;
  for (const { flow, wakesAt } of actors) {
    const at = flow === undefined ? wakesAt : nowMs + Math.max(0, flow.left) / flow.rate;
    if (at < next) next = at;
  }
  return next;
}

interface Path {
  readonly links: readonly number[];
  readonly latencyMs: number;
}

interface Paths {
  readonly between: (fromCell: number, toCell: number) => Path;
  readonly links: SiteLinks;
  /** Number of a cell's port out; that of its port in follows. */
  readonly portOf: (cell: number) => number;
  readonly bytesPerMs: Float64Array;
}

function pathsOf({ cells, width }: TimelineTask, site: PlanSite): Paths {
  const links = linksOf(site);
  const portOf = (cell: number): number => links.count + 2 * cell;
  const bytesPerMs = new Float64Array(links.count + 2 * cells.length);
  for (let link = 0; link < links.count; link += 1) bytesPerMs[link] = (links.gbs[link] ?? 0) * 1e6;
  for (const [cell, { host }] of cells.entries())
    for (const port of [portOf(cell), portOf(cell) + 1])
      bytesPerMs[port] = (site.hosts[host]?.inside.gbs ?? 0) * width * 1e6;
  const between = (fromCell: number, toCell: number): Path => {
    const [a = -1, b = -1] = [cells[fromCell]?.host, cells[toCell]?.host];
    if (a === b && links.hasBus[a] !== 1)
      return {
        links: [portOf(fromCell), portOf(toCell) + 1],
        latencyMs: site.hosts[a]?.inside.latencyMs ?? 0,
      };
    const crossed: number[] = [];
    eachLink(links, [a, b], (link) => crossed.push(link));
    return {
      links: crossed,
      latencyMs: Math.max(...crossed.map((link) => links.latencyMs[link] ?? 0)),
    };
  };
  return { between, links, portOf, bytesPerMs };
}

interface Stage {
  readonly task: TimelineTask;
  readonly site: PlanSite;
  readonly paths: Paths;
  readonly clock: { readonly nowMs: number };
  readonly actor: () => Actor;
  readonly wait: (of: Actor, ms: number, next: () => void) => void;
  readonly move: (
    of: Actor,
    what: { readonly links: readonly number[]; readonly bytes: number },
    next: () => void,
  ) => void;
}

/** Starts every unit's list of operations; the sums of gradients follow by themselves. */
function startUnits(stage: Stage): {
  readonly sendMs: Float64Array;
  readonly exchangeMs: Float64Array;
  readonly pipeline: { readonly endMs: number };
} {
  const { task, paths, clock, actor, wait, move } = stage;
  const { replicas, stages, microBatches, sendBytes, runs = 1 } = task;
  const count = stages * replicas;
  const order = { stages, runs, microBatches };
  const [sendMs, exchangeMs] = [new Float64Array(count), new Float64Array(count)];
  const pipeline = { endMs: 0 };
  const working = new Int32Array(stages).fill(replicas);
  /** Inputs that each unit has received for each of its runs, and what it does when one more comes. */
  const arrived = { forward: new Int32Array(runs * count), backward: new Int32Array(runs * count) };
  const blocked: (() => void)[] = [];
  const isDone = gradientSums(stage);
  for (let cell = 0; cell < count; cell += 1) {
    const at = Math.floor(cell / replicas);
    const ahead = aheadOf(at, order);
    const own = actor();
    const exchange = exchanger(stage, { cell, own, exchangeMs });
    const work = (number: number): void => {
      if (number === 2 * runs * microBatches) {
        pipeline.endMs = clock.nowMs;
        working[at] = (working[at] ?? 0) - 1;
        if (working[at] === 0) isDone(at);
        return;
      }
      const [isForward, microBatch, ownRun] = operation(number, ahead, order);
      const place = ownRun * count + cell;
      const run = ownRun * stages + at;
      const hasInput = isForward ? run > 0 : run < runs * stages - 1;
      const inputs = isForward ? arrived.forward : arrived.backward;
      if (hasInput && (inputs[place] ?? 0) <= microBatch) {
        blocked[cell] = () => {
          work(number);
        };
        return;
      }
      const ms = (isForward ? task.forwardMs[place] : task.backwardMs[place]) ?? 0;
      const toPlace = isForward ? place + replicas : place - replicas;
      const to = toPlace % count;
      const send = (): void => {
        if (toPlace < 0 || toPlace >= runs * count) {
          work(number + 1);
          return;
        }
        const { links, latencyMs } = paths.between(cell, to);
        const startMs = clock.nowMs;
        wait(own, latencyMs, () => {
          const bytes = sendBytes[isForward ? run : run - 1] ?? 0;
          move(own, { links, bytes }, () => {
            sendMs[cell] = (sendMs[cell] ?? 0) + clock.nowMs - startMs;
            const received = isForward ? arrived.forward : arrived.backward;
            received[toPlace] = (received[toPlace] ?? 0) + 1;
            const resume = blocked[to];
            blocked[to] = () => undefined;
            resume?.();
            work(number + 1);
          });
        });
      };
      wait(own, ms, () => {
        exchange({ run, isForward }, send);
      });
    };
    wait(own, 0, () => {
      work(0);
    });
  }
  return { sendMs, exchangeMs, pipeline };
}

interface Exchanging {
  readonly cell: number;
  readonly own: Actor;
  /** Of each cell, so far. */
  readonly exchangeMs: Float64Array;
}

/** All exchanges of a pass in one: a flow that crosses the links to each other of the group once. */
function exchanger(
  { task, paths, clock, wait, move }: Stage,
  { cell, own, exchangeMs }: Exchanging,
): (pass: { readonly run: number; readonly isForward: boolean }, next: () => void) => void {
  if ((task.experts ?? 1) === 1) return (_, next) => next();
  const others = groupOf(task, cell).filter((peer) => peer !== cell);
  const ways = others.map((peer) => paths.between(cell, peer));
  const links = ways.flatMap((way) => way.links);
  const onceMs = Math.max(...ways.map((way) => way.latencyMs));
  return ({ run, isForward }, next) => {
    const { forward, backward, calls } = task.exchanges[run] ?? NOTHING;
    if (forward === 0) {
      next();
      return;
    }
    const latencyMs = calls * onceMs;
    const startMs = clock.nowMs;
    const bytes = isForward ? forward : backward;
    wait(own, (latencyMs * bytes) / forward, () => {
      move(own, { links, bytes }, () => {
        exchangeMs[cell] = (exchangeMs[cell] ?? 0) + clock.nowMs - startMs;
        next();
      });
    });
  };
}

const NOTHING = { forward: 0, backward: 0, calls: 0 };

interface RingBytes {
  readonly members: number;
  /** Whether a replica is in the ring. */
  readonly of: (replica: number) => boolean;
  /** Over each edge but for the factor (k − 1)/k. */
  readonly bytes: number;
}

/** Called with each stage whose replicas have done their last backward. */
function gradientSums(stage: Stage): (at: number) => void {
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
