/**
 * @file The link monitor of a fleet: has the agents of every two sites measure the link between them, and tells the fleet what has changed.
 *
 * One probe at a time in the whole fleet, so never two on one link and no host in two. A probe: `openDoor` on the agent of one site, `knock` on the agent of the other.
 * What fails before the knock says nothing of the link, and the pair is tried again with other ends; link-memory.ts judges the rest. Nothing
 * is probed in a fleet with one site: the monitor sleeps until it is told of another description. News go to the fleet's inbox as they come; a fleet
 * that has lost its ledger hears everything again.
 * History: at most 26 events a probe; continues as new at 1,000 by its own count.
 */

import {
  allHandlersFinished,
  condition,
  continueAsNew,
  proxyActivities,
  setCurrentDetails,
  setHandler,
} from "@temporalio/workflow";
import type { JobActivities } from "../activities/control-contract.ts";
import type {
  LinkActivities,
  LinkEnd,
  LinkEnds,
  LinkEndsActivities,
  ProbeReport,
} from "../activities/link-contract.ts";
import { sitePairKey } from "../domain/site-link.ts";
import { fleetWorkflowId, reportAgainSignal } from "./messages.ts";
import {
  endsOf,
  forgetTold,
  isOut,
  newsOf,
  nextDue,
  nextDueAtMs,
  noteProbe,
  noteTold,
  pairOf,
  PERIOD_MS,
  withSites,
  wordsOf,
  type LinkMemory,
  type LinkRecord,
} from "./link-memory.ts";
import {
  arrivedSignal,
  LINK_MONITOR_RULES,
  linksQuery,
  probeLinksUpdate,
  type LinkMonitorInput,
  type LinkMonitorView,
} from "./link-messages.ts";

const CONTINUE_AT_EVENTS = 1_000;
const EVENTS_PER_ACTIVITY = 6;
/** Who is there is asked again after so long at most, sooner while sites have nobody. */
const ENDS_KNOWN_MS = 30_000;
const LEAST_PAUSE_MS = 5_000;
/** An agent that is there takes an order at once. */
const PICKUP_TIMEOUT_MS = 10_000;
const OPEN_MS = 20_000;
const KNOCK_MS = 10_000;
/** In each direction; a probe on a fast link costs twice this. */
const MOST_BYTES = 16 * 2 ** 20;
/** Words in one entry of the fleet's inbox. */
const MAX_WORDS = 200;

const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});
/** A fleet whose worker is away is asked again. */
const { linkEnds } = proxyActivities<LinkEndsActivities>({
  startToCloseTimeout: "30s",
  retry: { initialInterval: "1s", maximumInterval: "60s" },
});

export async function linkMonitor({
  fleet,
  memory: carried = [],
}: LinkMonitorInput): Promise<never> {
  const fleetId = fleetWorkflowId(fleet);
  let memory: LinkMemory = carried;
  let sites: readonly LinkEnds[] = [];
  let askedAtMs = -Infinity;
  let pauseMs = LEAST_PAUSE_MS;
  let hasNewcomer = true;
  let hasLooked = carried.length > 0;
  let busy: LinkRecord | undefined;
  let events = 0;

  setHandler(linksQuery, view);
  setHandler(arrivedSignal, () => {
    events += 2;
    hasNewcomer = true;
  });
  setHandler(reportAgainSignal, () => {
    events += 2;
    memory = forgetTold(memory);
    hasNewcomer = true;
  });
  setHandler(probeLinksUpdate, async (wish) => {
    // Who has just started it wants to hear of the fleet's links, not that none is known yet.
    await condition(() => hasLooked);
    const between = (wish as typeof wish | undefined)?.between; // a client may say nothing
    const pair = between === undefined ? undefined : sitePairKey(between[0], between[1]);
    const isMeant = (record: LinkRecord): boolean => pair === undefined || pairOf(record) === pair;
    memory = memory.map((record) => (isMeant(record) ? { ...record, nextAtMs: 0 } : record));
    events += 4;
    askedAtMs = -Infinity;
    return memory.filter(isMeant).length;
  });

  for (;;) {
    show();
    await untilWork();
    if (mustContinue()) break;
    if (areEndsOld()) await lookAround();
    const due = nextDue(memory, sites, Date.now());
    if (due !== undefined) await probe(due);
    await tellNews();
  }
  await condition(allHandlersFinished);
  return continueAsNew<typeof linkMonitor>({ fleet, rules: LINK_MONITOR_RULES, memory });

  /** A pair that can be probed now, a newcomer, or a look at who is there. */
  async function untilWork(): Promise<void> {
    const isWork = (): boolean =>
      mustContinue() ||
      hasNewcomer ||
      isAskedFor() ||
      nextDue(memory, sites, Date.now()) !== undefined;
    const soonestMs = Math.min(askedAtMs + pauseMs, nextDueAtMs(memory, sites));
    if (soonestMs === Infinity || isWork()) await condition(isWork);
    else {
      events += 4;
      await condition(isWork, Math.max(1, soonestMs - Date.now()));
    }
  }

  function isAskedFor(): boolean {
    return askedAtMs === -Infinity;
  }

  /** Before a probe it is to be known who is there now. */
  function areEndsOld(): boolean {
    const ageMs = Date.now() - askedAtMs;
    const isDue = nextDue(memory, sites, Date.now()) !== undefined;
    return hasNewcomer || ageMs >= pauseMs || (isDue && ageMs >= ENDS_KNOWN_MS);
  }

  async function lookAround(): Promise<void> {
    if (hasNewcomer) pauseMs = LEAST_PAUSE_MS;
    hasNewcomer = false;
    events += EVENTS_PER_ACTIVITY;
    const found = await linkEnds(fleetId);
    askedAtMs = Date.now();
    hasLooked = true;
    if (found !== null) {
      sites = found;
      const names = sites.map(({ site }) => site);
      memory = withSites(memory, names, askedAtMs);
    }
    // Who is missing may come, and says so then; a look now and then is for words that were lost.
    const isComplete = found?.every(({ ends }) => ends.length > 0) === true;
    const isAlone = found !== null && found.length < 2;
    pauseMs = isComplete || isAlone ? Infinity : Math.min(2 * pauseMs, PERIOD_MS);
  }

  async function probe(record: LinkRecord): Promise<void> {
    const pair = pairOf(record);
    const ends = endsOf(record, sites);
    if (ends === undefined) return;
    const [knocks, opens] = ends;
    busy = record;
    show();
    events += 2 * EVENTS_PER_ACTIVITY;
    let report: ProbeReport | undefined;
    let problem: string | undefined;
    try {
      const door = await agentOf(opens).openDoor({ host: opens.host, openMs: OPEN_MS });
      report = await agentOf(knocks).knock({
        host: knocks.host,
        door,
        mostBytes: MOST_BYTES,
        withinMs: KNOCK_MS,
      });
    } catch (error) {
      // An end did not do its part: that is no word on the link.
      problem = messageOf(error);
    }
    busy = undefined;
    memory = noteProbe(memory, pair, {
      nowMs: Date.now(),
      ...(report !== undefined && { report }),
      ...(problem !== undefined && { problem }),
    });
  }

  async function tellNews(): Promise<void> {
    const news = newsOf(memory, Date.now());
    if (news.length === 0) return;
    const part = news.slice(0, MAX_WORDS / 2);
    events += EVENTS_PER_ACTIVITY;
    const links = part.flatMap((record) => wordsOf(record, memory));
    const told = await tellFleet(fleetId, { kind: "links", links });
    if (told.kind !== "told") return;
    memory = noteTold(memory, new Set(part.map(pairOf)), Date.now());
  }

  function view(): LinkMonitorView {
    return {
      fleet,
      sites: sites.map(({ site, ends }) => ({ site, ends: ends.length })),
      links: memory,
      ...(busy !== undefined && { busy: [busy.a, busy.b] as const }),
    };
  }

  function mustContinue(): boolean {
    return events >= CONTINUE_AT_EVENTS;
  }

  function show(): void {
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
}

function agentOf({ host, orderQueue }: LinkEnd): LinkActivities {
  return proxyActivities<LinkActivities>({
    taskQueue: orderQueue,
    scheduleToStartTimeout: PICKUP_TIMEOUT_MS,
    startToCloseTimeout: KNOCK_MS + 5_000,
    retry: { maximumAttempts: 1 },
    summary: host,
  });
}

const messageOf = (error: unknown): string => {
  const cause = error instanceof Error ? (error.cause ?? error) : error;
  return cause instanceof Error ? cause.message : String(cause);
};
