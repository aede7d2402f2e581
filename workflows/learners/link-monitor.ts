/**
 * @file The link monitor of a fleet has the agents of every two sites measure the link between them, and tells the fleet what has changed.
 *
 * One probe runs at a time in the whole fleet, so no link and no host is in two probes. A probe is `listenForProbe` on the agent of one site
 * and `connectProbe` on the agent of the other. A failure before the connection says nothing of the link, and the pair is tried again with
 * other ends; link-records.ts evaluates the rest. A fleet with one site has nothing to probe: the monitor sleeps until its description
 * changes. News go to the fleet's inbox as they come; a fleet that has lost its ledger is told everything again.
 * History: at most 26 events a probe; continues as new at 1,000 by its own count.
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
} from "@temporalio/workflow";
import type { JobActivities } from "../../protocol/control-contract.ts";
import type {
  LinkActivities,
  LinkEnd,
  LinkEnds,
  LinkEndsActivities,
  ProbeReport,
} from "../../protocol/link-contract.ts";
import { sitePairKey } from "../../domain/fleet/site-link.ts";
import { fleetWorkflowId, reportAgainSignal } from "../../protocol/messages.ts";
import {
  endsOf,
  forgetNotified,
  isOut,
  newsOf,
  nextDue,
  nextDueAtMs,
  noteProbe,
  noteNotified,
  pairOf,
  PERIOD_MS,
  withSites,
  wordsOf,
} from "./link-records.ts";
import {
  arrivedSignal,
  LINK_MONITOR_RULES,
  linksQuery,
  probeLinksUpdate,
  type LinkMonitorInput,
  type LinkMonitorView,
  type LinkMemory,
  type LinkRecord,
  type ProbeWish,
} from "../../protocol/link-messages.ts";
import { PROVEN_LEARNER_RULES } from "../../protocol/word-proof.ts";
import {
  answerAboutDisbelieved,
  askFleetForProof,
  isHearing,
  keepHearing,
  onProvenUpdate,
} from "../runtime/proven-words.ts";
import { onJunk, onSignal } from "../runtime/signal-intake.ts";

const CONTINUE_AT_EVENTS = 1_000;
const EVENTS_PER_ACTIVITY = 6;
/** The agents are looked up again after this long at most, sooner while a site has none. */
const ENDS_KNOWN_MS = 30_000;
const LEAST_PAUSE_MS = 5_000;
/** An agent that is there takes an order at once. */
const PICKUP_TIMEOUT_MS = 10_000;
const OPEN_MS = 20_000;
const CONNECT_MS = 10_000;
/** In each direction; a probe on a fast link costs twice this. */
const MOST_BYTES = 16 * 2 ** 20;
/** Links in one entry of the fleet's inbox. */
const MAX_WORDS = 200;

const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  summary: "what has changed on links, for the fleet",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
/** A fleet whose worker is away is asked again. */
const { linkEnds } = proxyActivities<LinkEndsActivities>({
  summary: "the agents at the ends of links",
  startToCloseTimeout: "30s",
  retry: { initialInterval: "1s", maximumInterval: "60s" },
});

/** One run of the workflow; its functions change it. */
interface MonitorRun {
  readonly fleet: string;
  memory: LinkMemory;
  sites: readonly LinkEnds[];
  askedAtMs: number;
  /** Until the agents of the sites are looked up again. */
  pauseMs: number;
  hasNewcomer: boolean;
  hasLooked: boolean;
  busy: LinkRecord | undefined;
  /** Events of its history, by its own count. */
  events: number;
}

export async function linkMonitor({
  fleet,
  memory = [],
  rules = 1,
}: LinkMonitorInput): Promise<never> {
  const run: MonitorRun = {
    fleet,
    memory,
    sites: [],
    askedAtMs: -Infinity,
    pauseMs: LEAST_PAUSE_MS,
    hasNewcomer: true,
    hasLooked: memory.length > 0,
    busy: undefined,
    events: 0,
  };
  const asked = rules < PROVEN_LEARNER_RULES ? undefined : askFleetForProof(fleetWorkflowId(fleet));
  handle(run);
  if (asked !== undefined) {
    await asked;
    keepHearing((events) => (run.events += events));
  }
  for (;;) {
    show(run);
    await untilWork(run);
    if (mustContinue(run)) break;
    if (areEndsOld(run)) await lookAround(run);
    const due = nextDue(run.memory, run.sites, Date.now());
    if (due !== undefined) await probe(run, due);
    await tellNews(run);
  }
  await condition(allHandlersFinished);
  return continueAsNew<typeof linkMonitor>({
    fleet,
    rules: LINK_MONITOR_RULES,
    memory: run.memory,
  });
}

function handle(run: MonitorRun): void {
  setHandler(linksQuery, () => viewOf(run));
  onJunk(() => (run.events += 2));
  onSignal(arrivedSignal, () => {
    run.events += 2;
    run.hasNewcomer = true;
  });
  onSignal(reportAgainSignal, () => {
    run.events += 2;
    run.memory = forgetNotified(run.memory);
    run.hasNewcomer = true;
  });
  answerAboutDisbelieved();
  onProvenUpdate(
    probeLinksUpdate,
    async (order) => {
      // A client that has just started the monitor wants the fleet's links, not the answer that none is known yet.
      await condition(() => run.hasLooked);
      const between = (order as typeof order | undefined)?.between; // a client may say nothing
      const pair = between === undefined ? undefined : sitePairKey(between[0], between[1]);
      const isMeant = (record: LinkRecord): boolean =>
        pair === undefined || pairOf(record) === pair;
      run.memory = run.memory.map((record) =>
        isMeant(record) ? { ...record, nextAtMs: 0 } : record,
      );
      run.events += 4;
      run.askedAtMs = -Infinity;
      return run.memory.filter(isMeant).length;
    },
    { validate: checkProbe },
  );
}

/** Whoever reaches the frontend may send anything, and what fails in a handler fails each task of the run. */
function checkProbe(order: ProbeWish): void {
  const between: unknown = (order as ProbeWish | null | undefined)?.between;
  const isPair =
    Array.isArray(between) &&
    between.length === 2 &&
    between.every((site) => typeof site === "string");
  if (between === undefined || isPair) return;
  throw ApplicationFailure.nonRetryable(
    "a probe between sites needs the names of two",
    "BAD_INPUT",
  );
}

/** Until a pair can be probed, an agent has arrived, or the agents are to be looked up again. */
async function untilWork(run: MonitorRun): Promise<void> {
  const isWork = (): boolean =>
    mustContinue(run) ||
    run.hasNewcomer ||
    run.askedAtMs === -Infinity ||
    nextDue(run.memory, run.sites, Date.now()) !== undefined;
  const soonestMs = Math.min(run.askedAtMs + run.pauseMs, nextDueAtMs(run.memory, run.sites));
  if (soonestMs === Infinity || isWork()) await condition(isWork);
  else {
    run.events += 4;
    await condition(isWork, Math.max(1, soonestMs - Date.now()));
  }
}

/** Before a probe the agents that are there now have to be known. */
function areEndsOld({ memory, sites, askedAtMs, hasNewcomer, pauseMs }: MonitorRun): boolean {
  const ageMs = Date.now() - askedAtMs;
  const isDue = nextDue(memory, sites, Date.now()) !== undefined;
  return hasNewcomer || ageMs >= pauseMs || (isDue && ageMs >= ENDS_KNOWN_MS);
}

async function lookAround(run: MonitorRun): Promise<void> {
  if (run.hasNewcomer) run.pauseMs = LEAST_PAUSE_MS;
  run.hasNewcomer = false;
  run.events += EVENTS_PER_ACTIVITY;
  const found = await linkEnds(fleetWorkflowId(run.fleet));
  run.askedAtMs = Date.now();
  run.hasLooked = true;
  if (found !== null) {
    run.sites = found;
    const names = found.map(({ site }) => site);
    run.memory = withSites(run.memory, names, run.askedAtMs);
  }
  // A missing agent says so when it comes; the occasional look is for messages that were lost.
  const isComplete = found?.every(({ ends }) => ends.length > 0) === true;
  const isAlone = found !== null && found.length < 2;
  run.pauseMs = isComplete || isAlone ? Infinity : Math.min(2 * run.pauseMs, PERIOD_MS);
}

async function probe(run: MonitorRun, record: LinkRecord): Promise<void> {
  const ends = endsOf(record, run.sites);
  if (ends === undefined) return;
  run.busy = record;
  show(run);
  run.events += 2 * EVENTS_PER_ACTIVITY;
  const result = await measure(ends);
  run.busy = undefined;
  run.memory = noteProbe(run.memory, pairOf(record), { nowMs: Date.now(), ...result });
}

/** A problem is a failure of one of the ends, which says nothing of the link. */
async function measure([connections, opens]: readonly [LinkEnd, LinkEnd]): Promise<
  { readonly report: ProbeReport } | { readonly problem: string }
> {
  try {
    const listener = await agentOf(opens).listenForProbe({ host: opens.host, openMs: OPEN_MS });
    const report = await agentOf(connections).connectProbe({
      host: connections.host,
      listener,
      mostBytes: MOST_BYTES,
      withinMs: CONNECT_MS,
    });
    return { report };
  } catch (error) {
    return { problem: messageOf(error) };
  }
}

async function tellNews(run: MonitorRun): Promise<void> {
  const news = newsOf(run.memory, Date.now());
  if (news.length === 0) return;
  const part = news.slice(0, MAX_WORDS / 2);
  run.events += EVENTS_PER_ACTIVITY;
  const links = part.flatMap((record) => wordsOf(record, run.memory));
  const notified = await tellFleet(fleetWorkflowId(run.fleet), { kind: "links", links });
  if (notified.kind !== "delivered") return;
  run.memory = noteNotified(run.memory, new Set(part.map(pairOf)), Date.now());
}

const viewOf = ({ fleet, sites, memory, busy }: MonitorRun): LinkMonitorView => ({
  fleet,
  sites: sites.map(({ site, ends }) => ({ site, ends: ends.length })),
  links: memory,
  ...(busy !== undefined && { busy: [busy.a, busy.b] as const }),
});

const mustContinue = ({ events }: MonitorRun): boolean =>
  events >= CONTINUE_AT_EVENTS && !isHearing();

function show({ fleet, memory, busy }: MonitorRun): void {
  const out = memory.filter(isOut).map(({ a, b }) => `${a} – ${b}`);
  const measured = memory.filter(({ there }) => there !== undefined).length;
  setCurrentDetails(
    [
      `**Links of fleet ${fleet}**: ${measured} of ${memory.length} measured`,
      ...(busy === undefined ? [] : ["", `probing ${busy.a} – ${busy.b}`]),
      ...(out.length === 0 ? [] : ["", `out: ${out.slice(0, 20).join(", ")}`]),
    ].join("\n"),
  );
}

function agentOf({ host, orderQueue }: LinkEnd): LinkActivities {
  return proxyActivities<LinkActivities>({
    taskQueue: orderQueue,
    scheduleToStartTimeout: PICKUP_TIMEOUT_MS,
    startToCloseTimeout: CONNECT_MS + 5_000,
    retry: { maximumAttempts: 1 },
    summary: host,
  });
}

const messageOf = (error: unknown): string => {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
};
