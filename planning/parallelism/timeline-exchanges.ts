/** @file What units of a played step exchange before they send on: keys and values around a ring of those that share out a sequence, tokens with those that share out experts. */

import { contextEdges, contextRing } from "./context-ring.ts";
import { groupOf } from "./expert-exchange.ts";
import type { Actor, Stage } from "./timeline-stage.ts";

export interface Pass {
  readonly run: number;
  readonly isForward: boolean;
}

export interface Exchanging {
  readonly cell: number;
  readonly own: Actor;
  /** What the unit passes at the moment. */
  readonly pass: Pass;
  /** When what each cell exchanges at the moment began, and what all took so far. */
  readonly since: Float64Array;
  readonly exchangeMs: Float64Array;
  /** What follows the exchange. */
  readonly next: () => void;
}

/** Carries out what the unit's pass exchanges. The functions by which a unit goes on are made once: they say what it is doing (timeline-period.ts). */
type Exchanger = () => void;

interface Member extends Exchanging {
  readonly links: readonly number[] | undefined;
  readonly meet: () => void;
}

/** Units that share out a sequence: all exchanges of a pass in one, each edge of the ring a flow, when all of the group are there. */
export function contextMeetings({
  task,
  site,
  paths,
  clock,
  wait,
  move,
}: Stage): (of: Exchanging) => Exchanger {
  const { contexts = 1 } = task;
  if (contexts === 1) return ({ next }) => next;
  const groups = Array.from({ length: task.cells.length / contexts }, (_, group) => {
    const ring = contextRing(task, group * contexts, site);
    const ways = new Map(
      contextEdges(ring, task, site).map(({ from, to }) => [from, paths.between(from, to)]),
    );
    const latencyMs = Math.max(...[...ways.values()].map((way) => way.latencyMs));
    const members: Member[] = [];
    return { ways, latencyMs, members, here: 0, open: 0 };
  });
  return (of) => {
    const { cell, own, pass, next } = of;
    const group = groups[Math.floor(cell / contexts)];
    if (group === undefined) return next;
    const links = group.ways.get(cell)?.links;
    const exchange = (): (typeof task.contextExchanges)[number] =>
      task.contextExchanges[pass.run] ?? NOTHING;
    const bytesOf = (): number => (pass.isForward ? exchange().forward : exchange().backward);
    const end = (): void => {
      group.open -= 1;
      if (group.open > 0) return;
      for (const { cell: at, since, exchangeMs, next: follow } of group.members) {
        exchangeMs[at] = (exchangeMs[at] ?? 0) + clock.nowMs - (since[at] ?? 0);
        follow();
      }
    };
    const send = (): void => {
      if (links !== undefined) move(own, { links, bytes: bytesOf() }, end);
    };
    const meet = (): void => {
      of.since[cell] = clock.nowMs;
      if (links === undefined) return;
      const { calls, forward } = exchange();
      wait(own, (calls * group.latencyMs * bytesOf()) / forward, send);
    };
    group.members.push({ ...of, links, meet });
    return () => {
      if (exchange().forward === 0) {
        next();
        return;
      }
      own.next = meet;
      group.here += 1;
      if (group.here < contexts) return;
      group.here = 0;
      group.open = group.ways.size;
      for (const member of group.members) member.meet();
    };
  };
}

/** All exchanges of a pass in one: a flow that crosses the links to each other of the group once. */
export function exchanger(
  { task, paths, clock, wait, move }: Stage,
  { cell, own, pass, since, exchangeMs, next }: Exchanging,
): Exchanger {
  if ((task.experts ?? 1) === 1) return next;
  const others = groupOf(task, cell).filter((peer) => peer !== cell);
  const ways = others.map((peer) => paths.between(cell, peer));
  const links = ways.flatMap((way) => way.links);
  const onceMs = Math.max(...ways.map((way) => way.latencyMs));
  const exchange = (): (typeof task.exchanges)[number] => task.exchanges[pass.run] ?? NOTHING;
  const bytesOf = (): number => (pass.isForward ? exchange().forward : exchange().backward);
  const end = (): void => {
    exchangeMs[cell] = (exchangeMs[cell] ?? 0) + clock.nowMs - (since[cell] ?? 0);
    next();
  };
  const send = (): void => {
    move(own, { links, bytes: bytesOf() }, end);
  };
  return () => {
    const { forward, calls } = exchange();
    if (forward === 0) {
      next();
      return;
    }
    since[cell] = clock.nowMs;
    wait(own, (calls * onceMs * bytesOf()) / forward, send);
  };
}

const NOTHING = { forward: 0, backward: 0, calls: 0 };
