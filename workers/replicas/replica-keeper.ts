/**
 * @file Keeps as many replicas of a service as its requests need: submits jobs, finds their addresses, gives those back that are not needed.
 *
 * Each replica is a job with a lease of its own, so the fleet decides when it gets GPUs and from whom, by class, weight and quota; what the service gives
 * back is free for others. A replica to be given back gets no further requests, answers those that it has, and is cancelled then. One that does not answer
 * is looked for again: its job may have been preempted or moved, and serves elsewhere later. Nothing here is stored: a keeper that starts
 * finds the jobs of its service by their label.
 */

import type { ReplicaRule } from "../../domain/job/service-rule.ts";
import {
  replicaTarget,
  SCALE,
  type LoadSample,
  type ScaleOptions,
} from "../../planning/serving/replica-target.ts";
import type { ReplicaTerms } from "../../planning/serving/replica-terms.ts";
import type { ServiceRouter } from "./service-router.ts";

export type ReplicaLook =
  | { readonly kind: "ended"; readonly how: string }
  /** It waits for GPUs, or its process starts. */
  | { readonly kind: "starting" }
  | { readonly kind: "up"; readonly url: string; readonly terms: ReplicaTerms };

/** The jobs of one service. */
export interface ReplicaJobs {
  /** Those that have not ended. */
  readonly list: () => Promise<readonly string[]>;
  readonly submit: () => Promise<string>;
  readonly look: (id: string) => Promise<ReplicaLook>;
  readonly cancel: (id: string) => Promise<void>;
  /** Whether a replica answers requests. */
  readonly probe: (url: string) => Promise<boolean>;
}

export interface KeeperOptions {
  readonly rule: ReplicaRule;
  readonly jobs: ReplicaJobs;
  readonly router: ServiceRouter;
  readonly say: (line: string) => void;
  readonly nowMs?: () => number;
  readonly scale?: ScaleOptions;
}

export interface ReplicaCounts {
  readonly starting: number;
  readonly ready: number;
  readonly draining: number;
}

export interface ReplicaKeeper {
  readonly counts: () => ReplicaCounts;
  /** A replica did not answer. */
  readonly suspect: (id: string) => void;
  /** To be called when a request comes, so that it need not wait for the next look. */
  readonly stir: () => void;
  /** Ends the looks; replicas stay. */
  readonly close: () => Promise<void>;
}

const LOOK_MS = 250;
/** While a replica was wanted in the last `SOON_MS`: a small model is loaded by then, and its first request waits for nothing but this look. */
const SOON_LOOK_MS = 50;
const SOON_MS = 5_000;
const PROBE_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;
const LONGEST_PAUSE_MS = 60_000;
/** Of a replica before any has told. */
const USUAL_TERMS: ReplicaTerms = Object.freeze({ slots: 8, promptMs: 0, backlogMs: 0 });
/** Submissions of one look. */
const MOST_AT_ONCE = 8;

interface Kept {
  readonly id: string;
  readonly wantedAtMs: number;
  phase: "starting" | "ready" | "draining" | "leaving";
  /** Whether it has answered at all. */
  hasServed: boolean;
  url?: string;
  terms?: ReplicaTerms;
  probedMs: number;
  /** What is being done about it. */
  work?: Promise<void>;
}

interface Keeping {
  readonly kept: Map<string, Kept>;
  samples: LoadSample[];
  lastRequestMs: number;
  /** Of the last replica that came up. */
  terms: ReplicaTerms;
  /** Submissions in a row of which none has served. */
  failures: number;
  pausedUntilMs: number;
}

export async function keepReplicas(options: KeeperOptions): Promise<ReplicaKeeper> {
  const { jobs, router, nowMs = Date.now } = options;
  const found = await jobs.list();
  const state: Keeping = {
    kept: new Map(found.map((id) => [id, newReplica(id, -Infinity)])),
    samples: [],
    // A new service waits for its first request; replicas of a former endpoint were asked by its clients.
    lastRequestMs: found.length > 0 ? nowMs() : -Infinity,
    terms: USUAL_TERMS,
    failures: 0,
    pausedUntilMs: 0,
  };
  let isOver = false;
  let wake = (): void => undefined;
  const loop = async (): Promise<void> => {
    while (!isOver) {
      await turn(state, options, nowMs()).catch((error: unknown) => {
        options.say(messageOf(error));
        state.pausedUntilMs = nowMs() + FIRST_PAUSE_MS;
      });
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, lookMs(state, nowMs()));
        wake = () => {
          clearTimeout(timer);
          resolve();
        };
      });
    }
  };
  const looping = loop();
  return {
    counts: () => {
      const of = (phase: Kept["phase"]): number =>
        [...state.kept.values()].filter((each) => each.phase === phase).length;
      return { starting: of("starting"), ready: of("ready"), draining: of("draining") };
    },
    suspect(id) {
      const replica = state.kept.get(id);
      if (replica !== undefined) suspectOf(replica, router);
    },
    stir: () => {
      if (state.kept.size === 0) wake();
    },
    async close() {
      isOver = true;
      wake();
      await looping;
      await Promise.all([...state.kept.values()].map(({ work }) => work));
    },
  };
}

function lookMs({ kept }: Keeping, now: number): number {
  const isSoon = [...kept.values()].some(
    ({ phase, wantedAtMs }) => phase === "starting" && now - wantedAtMs < SOON_MS,
  );
  return isSoon ? SOON_LOOK_MS : LOOK_MS;
}

/** It is looked for again; one that is to go, still goes. */
function suspectOf(replica: Kept, router: ServiceRouter): void {
  router.shut(replica.id);
  if (replica.phase === "ready") replica.phase = "starting";
}

const newReplica = (id: string, wantedAtMs: number): Kept => ({
  id,
  wantedAtMs,
  phase: "starting",
  hasServed: false,
  probedMs: 0,
});

async function turn(state: Keeping, options: KeeperOptions, now: number): Promise<void> {
  const { rule, router, scale = SCALE } = options;
  const load = router.load();
  if (load.inService + load.waiting > 0) state.lastRequestMs = now;
  state.samples = [
    ...state.samples.filter(({ atMs }) => atMs >= now - scale.longMs - scale.calmMs),
    { atMs: now, ...load },
  ];
  const wanted = [...state.kept.values()].filter(
    ({ phase }) => phase === "starting" || phase === "ready",
  );
  const { samples, terms, lastRequestMs } = state;
  const replicas = wanted.length;
  const target = replicaTarget(rule, { samples, terms, replicas, lastRequestMs }, scale);
  if (target > wanted.length) await add(state, options, { count: target - wanted.length, now });
  else
    for (const each of leastUsed(wanted, router).slice(0, wanted.length - target))
      drop(each, router);
  // One that answers slowly holds up no other.
  for (const each of state.kept.values())
    each.work ??= attend(each, state, { options, now })
      .catch((error: unknown) => options.say(`${each.id}: ${messageOf(error)}`))
      .finally(() => delete each.work);
}

const messageOf = (error: unknown): string =>
  error instanceof Error ? error.message : String(error);

/** Those that were to go come back first. */
async function add(
  state: Keeping,
  { jobs, router, say }: KeeperOptions,
  { count, now }: { readonly count: number; readonly now: number },
): Promise<void> {
  const draining = [...state.kept.values()].filter(({ phase }) => phase === "draining");
  const back = draining.slice(0, count);
  for (const each of back) {
    each.phase = "ready";
    const { id, url, terms } = each;
    if (url !== undefined && terms !== undefined) router.open({ id, url, terms });
  }
  if (now < state.pausedUntilMs) return;
  const missing = Math.min(MOST_AT_ONCE, count - back.length);
  const submitted = await Promise.all(Array.from({ length: missing }, () => jobs.submit()));
  for (const id of submitted) {
    state.kept.set(id, newReplica(id, now));
    say(`a replica is wanted: ${id}`);
  }
}

/** Starting ones first, then those with the fewest requests; then the youngest. */
const leastUsed = (replicas: readonly Kept[], router: ServiceRouter): readonly Kept[] =>
  [...replicas]
    .reverse()
    .sort(
      (a, b) =>
        Number(a.phase === "ready") - Number(b.phase === "ready") ||
        router.inServiceOf(a.id) - router.inServiceOf(b.id),
    );

function drop(replica: Kept, router: ServiceRouter): void {
  replica.phase = "draining";
  router.shut(replica.id);
}

interface Attending {
  readonly options: KeeperOptions;
  readonly now: number;
}

async function attend(replica: Kept, state: Keeping, of: Attending): Promise<void> {
  const { jobs, router, say } = of.options;
  switch (replica.phase) {
    case "starting":
      return await lookFor(replica, state, of);
    case "ready":
      if (of.now - replica.probedMs < PROBE_MS || replica.url === undefined) return;
      replica.probedMs = of.now;
      if (!(await jobs.probe(replica.url))) suspectOf(replica, router);
      return;
    case "draining":
      if (router.inServiceOf(replica.id) > 0) return;
      await jobs.cancel(replica.id);
      replica.phase = "leaving";
      say(`a replica is given back: ${replica.id}`);
      return;
    case "leaving":
      state.kept.delete(replica.id);
  }
}

async function lookFor(replica: Kept, state: Keeping, { options, now }: Attending): Promise<void> {
  const { jobs, router, say } = options;
  const look = await jobs.look(replica.id);
  if (look.kind === "ended") {
    state.kept.delete(replica.id);
    router.shut(replica.id);
    say(`a replica has ended: ${replica.id}, ${look.how}`);
    if (replica.hasServed) return;
    state.failures += 1;
    const pause = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** state.failures);
    state.pausedUntilMs = now + pause;
    return;
  }
  if (look.kind === "starting" || !(await jobs.probe(look.url))) return;
  const { url, terms } = look;
  Object.assign(replica, { url, terms, probedMs: now, hasServed: true });
  state.failures = 0;
  state.terms = terms;
  // While it was asked, it may have been chosen to go; it serves then until it does.
  if (replica.phase !== "starting") return;
  replica.phase = "ready";
  router.open({ id: replica.id, url, terms });
  say(`a replica serves: ${replica.id} at ${url}, ${String(terms.slots)} requests at once`);
}
