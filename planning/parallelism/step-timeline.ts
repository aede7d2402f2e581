/**
 * @file Plays one training step on a site's links: each send, ring and tied embedding at its max–min fair rate, from the first to the last.
 *
 * The bound of step-time.ts lets all sends of a link collide; here they collide only when the schedule makes them. A unit works through its
 * 1F1B order and is busy while it sends, or exchanges tokens with those with which it shares out experts; those that share out a sequence meet before they
 * pass keys and values around, and go on when all edges of their ring are done. An operation
 * starts when its input has arrived. Each edge of a
 * stage's ring starts as a flow when its replicas are done, then those of its experts' rings; tied embeddings follow the rings of the first and the last stage. Cost: for each moment at
 * which something changes, O(units) and the filling of fair-rates.ts.
 */

import { rateFiller, type Flow } from "./fair-rates.ts";
import { expertRings, ringLatencyMs, ringOf, stageCells, type Ring } from "./gradient-rings.ts";
import { aheadOf, operation } from "./pipeline-time.ts";
import { eachLink } from "./site-links.ts";
import type { PlanSite } from "./site.ts";
import { contextMeetings, exchanger } from "./timeline-exchanges.ts";
import {
  pathsOf,
  type Actor,
  type Paths,
  type Stage,
  type TimelineTask,
} from "./timeline-stage.ts";

export interface Timeline {
  readonly totalMs: number;
  /** When the last backward ends. */
  readonly pipelineMs: number;
  /** What the sends of each cell took. */
  readonly sendMs: Float64Array;
  /** What the exchanges of each cell took. */
  readonly exchangeMs: Float64Array;
}

export function playStep(task: TimelineTask, site: PlanSite): Timeline {
  const clock = { nowMs: 0 };
  const actors: Actor[] = [];
  const paths = pathsOf(task, site);
  const fillRates = rateFiller(paths.bytesPerMs);
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
    if (isDirty.value) fillRates(flowsOf(actors));
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

/** Asked at nearly every moment, so it makes nothing but the list. */
function flowsOf(actors: readonly Actor[]): readonly Flow[] {
  const flows: Flow[] = [];
  for (const { flow } of actors) if (flow !== undefined) flows.push(flow);
  return flows;
}

function nextMoment(actors: readonly Actor[], nowMs: number): number {
  let next = Infinity;
  for (const { flow, wakesAt } of actors) {
    const at = flow === undefined ? wakesAt : nowMs + Math.max(0, flow.left) / flow.rate;
    if (at < next) next = at;
  }
  return next;
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
  const contexts = contextMeetings(stage, exchangeMs);
  for (let cell = 0; cell < count; cell += 1) {
    const at = Math.floor(cell / replicas);
    const ahead = aheadOf(at, order);
    const own = actor();
    const exchange = exchanger(stage, { cell, own, exchangeMs });
    const passAround = contexts(cell, own);
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
        passAround({ run, isForward }, () => {
          exchange({ run, isForward }, send);
        });
      });
    };
    wait(own, 0, () => {
      work(0);
    });
  }
  return { sendMs, exchangeMs, pipeline };
}

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
