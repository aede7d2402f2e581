/** @file What units of a played step exchange before they send on: keys and values around a ring of those that share out a sequence, tokens with those that share out experts. */

import { contextEdges, contextRing } from "./context-ring.ts";
import { groupOf } from "./expert-exchange.ts";
import type { Actor, Stage } from "./timeline-stage.ts";

interface Pass {
  readonly run: number;
  readonly isForward: boolean;
}

/** Carried out before `next`. */
type Exchanger = (pass: Pass, next: () => void) => void;

/** Units that share out a sequence: all exchanges of a pass in one, each edge of the ring a flow, when all of the group are there. */
export function contextMeetings(
  { task, site, paths, clock, wait, move }: Stage,
  exchangeMs: Float64Array,
): (cell: number, own: Actor) => Exchanger {
  const { contexts = 1 } = task;
  if (contexts === 1) return () => (_, next) => next();
  const groups = Array.from({ length: task.cells.length / contexts }, (_, group) => {
    const ring = contextRing(task, group * contexts, site);
    const ways = new Map(
      contextEdges(ring, task, site).map(({ from, to }) => [from, paths.between(from, to)]),
    );
    const latencyMs = Math.max(...[...ways.values()].map((way) => way.latencyMs));
    const here: { readonly cell: number; readonly own: Actor; readonly next: () => void }[] = [];
    return { ways, latencyMs, here };
  });
  return (cell, own) =>
    ({ run, isForward }, next) => {
      const { forward, backward, calls } = task.contextExchanges[run] ?? NOTHING;
      const group = groups[Math.floor(cell / contexts)];
      if (forward === 0 || group === undefined) {
        next();
        return;
      }
      group.here.push({ cell, own, next });
      if (group.here.length < contexts) return;
      const members = group.here.splice(0);
      const startMs = clock.nowMs;
      let open = group.ways.size;
      const end = (): void => {
        open -= 1;
        if (open > 0) return;
        for (const member of members) {
          exchangeMs[member.cell] = (exchangeMs[member.cell] ?? 0) + clock.nowMs - startMs;
          member.next();
        }
      };
      const bytes = isForward ? forward : backward;
      for (const member of members) {
        const links = group.ways.get(member.cell)?.links;
        if (links === undefined) continue;
        wait(member.own, (calls * group.latencyMs * bytes) / forward, () => {
          move(member.own, { links, bytes }, end);
        });
      }
    };
}

interface Exchanging {
  readonly cell: number;
  readonly own: Actor;
  /** Of each cell, so far. */
  readonly exchangeMs: Float64Array;
}

/** All exchanges of a pass in one: a flow that crosses the links to each other of the group once. */
export function exchanger(
  { task, paths, clock, wait, move }: Stage,
  { cell, own, exchangeMs }: Exchanging,
): Exchanger {
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
