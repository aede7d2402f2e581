/**
 * @file A service of played replicas under given arrivals: the product's own choice of replicas and its own count of them, in simulated time.
 *
 * `chooseReplica`, `replicaTarget` and the terms of a plan are those of the endpoint; looks come as often as its keeper's. A replica takes GPUs from the
 * moment when it is wanted, answers `startMs` later, and gives them back when it was to go and has answered.
 */

import type { ServiceGoal } from "../../domain/model/engine-names.ts";
import { eventQueue } from "../../lib/event-queue.ts";
import {
  busyAfter,
  chooseReplica,
  roomAtMs,
  type RoutedReplica,
} from "../../planning/serving/choose-replica.ts";
import {
  replicaTarget,
  SCALE,
  type LoadSample,
  type ScaleOptions,
} from "../../planning/serving/replica-target.ts";
import type { ReplicaTerms } from "../../planning/serving/replica-terms.ts";
import {
  beginStep,
  endStep,
  playedEngine,
  type EngineModel,
  type PlayedEngine,
  type PlayedRequest,
} from "./played-engine.ts";

export interface PlayOptions {
  readonly arrivalsMs: readonly number[];
  readonly model: EngineModel;
  readonly terms: ReplicaTerms;
  readonly startMs: number;
  readonly most: number;
  readonly scale?: ScaleOptions;
}

export interface PlayedService {
  /** Of the requests: within both times. */
  readonly kept: number;
  /** Replica-seconds. */
  readonly replicaS: number;
  readonly most: number;
}

const LOOK_MS = 250;
const IDS = 6;

interface Played extends RoutedReplica {
  readonly engine: PlayedEngine;
  readonly wantedMs: number;
  phase: "starting" | "ready" | "draining";
  inService: number;
  busyUntilMs: number;
}

type Event =
  | { readonly kind: "arrival" }
  | { readonly kind: "up" | "step"; readonly replica: Played }
  | { readonly kind: "look" | "room" };

export function playService(options: PlayOptions): PlayedService {
  const { arrivalsMs, model, terms, startMs, most, scale = SCALE } = options;
  const { goal } = model;
  const events = eventQueue<Event>();
  const replicas = new Set<Played>();
  const samples: LoadSample[] = [];
  const line: PlayedRequest[] = [];
  let [now, came, started, replicaMs, kept, ended, peak] = [0, 0, 0, 0, 0, 0, 0];
  /** The next moment at which the line is looked at anyway. */
  let roomMs = -1;

  const step = (replica: Played): void => {
    const ms = beginStep(replica.engine, model);
    if (ms !== undefined) events.put(now + ms, 0, { kind: "step", replica });
  };
  const open = (): readonly Played[] => [...replicas].filter(({ phase }) => phase === "ready");
  const serveLine = (): void => {
    for (let first = line[0]; first !== undefined; first = line[0]) {
      const replica = chooseReplica(open(), { blocks: [], nowMs: now });
      if (replica === undefined) {
        const atMs = roomAtMs(open());
        if (atMs === undefined || atMs <= now || (roomMs > now && roomMs <= atMs)) return;
        roomMs = atMs;
        events.put(atMs, 1, { kind: "room" });
        return;
      }
      replica.busyUntilMs = busyAfter(replica, now);
      replica.inService += 1;
      replica.engine.prompts.push(first);
      line.shift();
      step(replica);
    }
  };
  const leave = (replica: Played): void => {
    if (replica.phase !== "draining" || replica.inService > 0) return;
    replicas.delete(replica);
    replicaMs += now - replica.wantedMs;
  };
  const look = (): void => {
    const inService = [...replicas].reduce((sum, replica) => sum + replica.inService, 0);
    samples.push({ atMs: now, inService, waiting: line.length, came });
    while ((samples[0]?.atMs ?? now) < now - scale.longMs - scale.calmMs) samples.shift();
    const wanted = [...replicas].filter(({ phase }) => phase !== "draining");
    const load = { samples, terms, replicas: wanted.length, lastRequestMs: now };
    const target = replicaTarget({ min: 1, max: most }, load, scale);
    if (target < wanted.length)
      for (const replica of [...wanted]
        .reverse()
        .sort(
          (a, b) =>
            Number(a.phase === "ready") - Number(b.phase === "ready") || a.inService - b.inService,
        )
        .slice(0, wanted.length - target)) {
        replica.phase = "draining";
        leave(replica);
      }
    const draining = [...replicas].filter(({ phase }) => phase === "draining");
    for (let missing = target - wanted.length; missing > 0; missing -= 1) {
      const back = draining.pop();
      if (back !== undefined) {
        back.phase = "ready";
        continue;
      }
      const replica: Played = {
        ...terms,
        known: () => 0,
        id: String(started).padStart(IDS, "0"),
        engine: playedEngine(),
        wantedMs: now,
        phase: "starting",
        inService: 0,
        busyUntilMs: 0,
      };
      started += 1;
      replicas.add(replica);
      events.put(now + startMs, 0, { kind: "up", replica });
    }
    peak = Math.max(peak, replicas.size);
    serveLine();
  };

  events.put(0, 2, { kind: "look" });
  events.put(arrivalsMs[0] ?? 0, 0, { kind: "arrival" });
  for (let event = events.take(); event !== undefined; event = events.take()) {
    now = event.atMs;
    const { what } = event;
    switch (what.kind) {
      case "arrival":
        line.push({
          ...{ cameMs: now, firstMs: 0, endMs: 0, lastStep: 0 },
          promptLeft: goal.promptTokens,
        });
        came += 1;
        if (came < arrivalsMs.length) events.put(arrivalsMs[came] ?? now, 0, { kind: "arrival" });
        serveLine();
        break;
      case "up":
        if (what.replica.phase === "starting") what.replica.phase = "ready";
        serveLine();
        break;
      case "step": {
        const gone = endStep(what.replica.engine, now, goal);
        what.replica.inService -= gone.length;
        ended += gone.length;
        kept += gone.filter((request) => isInTime(request, goal)).length;
        leave(what.replica);
        if (gone.length > 0) serveLine();
        step(what.replica);
        break;
      }
      case "look":
        look();
        if (ended < arrivalsMs.length) events.put(now + LOOK_MS, 2, { kind: "look" });
        break;
      case "room":
        serveLine();
    }
  }
  for (const replica of replicas) replicaMs += now - replica.wantedMs;
  return { kept: kept / arrivalsMs.length, replicaS: replicaMs / 1000, most: peak };
}

const isInTime = (
  { cameMs, firstMs, endMs }: PlayedRequest,
  { ttftMs, tpotMs, outputTokens }: ServiceGoal,
): boolean =>
  firstMs - cameMs <= ttftMs && (endMs - firstMs) / Math.max(1, outputTokens - 1) <= tpotMs;
