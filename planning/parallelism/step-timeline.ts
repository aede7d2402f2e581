/**
 * @file Plays one training step on a site's links: each send, ring and tied embedding at its max–min fair rate, from the first to the last.
 *
 * The bound of step-time.ts lets all sends of a link collide; here they collide only when the schedule makes them. A unit works through its
 * 1F1B order and is busy while it sends, or exchanges tokens with those with which it shares out experts; those that share out a sequence meet before they
 * pass keys and values around, and go on when all edges of their ring are done. An operation
 * starts when its input has arrived. Each edge of a
 * stage's ring starts as a flow when its replicas are done, then those of its experts' rings; tied embeddings follow the rings of the first and the last stage. What repeats
 * is played once (timeline-period.ts). Cost: for each moment at which something changes, O(units) and the filling of fair-rates.ts; moments may be bounded.
 */

import { rateFiller, type Flow } from "./fair-rates.ts";
import type { PlanSite } from "./site.ts";
import { periodsOf } from "./timeline-period.ts";
import { gradientSums } from "./timeline-rings.ts";
import { pathsOf, type Actor, type Stage, type TimelineTask } from "./timeline-stage.ts";
import { startUnits } from "./timeline-units.ts";

export interface Timeline {
  readonly totalMs: number;
  /** When the last backward ends. */
  readonly pipelineMs: number;
  /** What the sends of each cell took. */
  readonly sendMs: Float64Array;
  /** What the exchanges of each cell took. */
  readonly exchangeMs: Float64Array;
  /** At which something changed, but for those of what was left out as repeated. */
  readonly moments: number;
}

/** Undefined where it has more moments than `mostMoments`: a step may have as many as it has micro-batches and units. */
export function playStep(
  task: TimelineTask,
  site: PlanSite,
  mostMoments = Infinity,
): Timeline | undefined {
  const clock = { nowMs: 0 };
  const actors: Actor[] = [];
  const paths = pathsOf(task, site);
  const fillRates = rateFiller(paths.bytesPerMs);
  let isDirty = false;
  const stage: Stage = {
    task,
    site,
    paths,
    clock,
    actor: () => {
      const made: Actor = {
        wakesAt: Infinity,
        flow: { links: NOWHERE, left: 0, rate: 0 },
        isMoving: false,
        next: () => undefined,
      };
      actors.push(made);
      return made;
    },
    wait: (of, ms, next) => {
      of.wakesAt = clock.nowMs + ms;
      of.next = next;
    },
    move: (of, { links, bytes }, next) => {
      of.flow.links = links;
      of.flow.left = bytes;
      of.isMoving = true;
      of.next = next;
      isDirty = true;
    },
  };
  const units = startUnits(stage, gradientSums(stage));
  const laterBy = periodsOf(units);
  const flows: Flow[] = [];
  const ready: Actor[] = [];
  let moments = 0;
  for (;;) {
    if (isDirty) {
      flows.length = 0;
      for (let at = 0; at < actors.length; at += 1) {
        const of = actors[at];
        if (of?.isMoving === true) flows.push(of.flow);
      }
      fillRates(flows);
    }
    isDirty = false;
    const next = nextMoment(actors, clock.nowMs);
    if (next === Infinity) break;
    if (moments >= mostMoments) return undefined;
    moments += 1;
    ready.length = 0;
    for (let at = 0; at < actors.length; at += 1) {
      const of = actors[at];
      if (of === undefined) continue;
      if (of.isMoving) {
        const { flow } = of;
        flow.left -= flow.rate * (next - clock.nowMs);
        if (flow.left > ROUNDING * flow.rate * (1 + next)) continue;
        of.isMoving = false;
        isDirty = true;
        ready.push(of);
      } else if (of.wakesAt <= next) {
        of.wakesAt = Infinity;
        ready.push(of);
      }
    }
    clock.nowMs = next;
    for (let at = 0; at < ready.length; at += 1) ready[at]?.next();
    if (units.isAtTurn) clock.nowMs += laterBy(clock.nowMs);
    units.isAtTurn = false;
  }
  const { endMs, sendMs, exchangeMs } = units;
  return { totalMs: clock.nowMs, pipelineMs: endMs, sendMs, exchangeMs, moments };
}

const NOWHERE: readonly number[] = [];
/** Of a flow's time; bytes that would take less are rounding. */
const ROUNDING = 1e-12;

function nextMoment(actors: readonly Actor[], nowMs: number): number {
  let next = Infinity;
  for (let number = 0; number < actors.length; number += 1) {
    const of = actors[number];
    if (of === undefined) continue;
    const { flow } = of;
    const at = of.isMoving ? nowMs + Math.max(0, flow.left) / flow.rate : of.wakesAt;
    if (at < next) next = at;
  }
  return next;
}
