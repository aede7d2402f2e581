/**
 * @file The presence of one cluster: watches the agents of its hosts, and tells the fleet when one falls silent or answers.
 *
 * For each agent: report (what runs there; to the fleet as a registration) → keep contact, one activity that heartbeats for as long as
 * the agent lives. Its timeout is silence: the fleet hears of it, and the report is asked for again without a limit of time, so that the
 * answer, whenever it comes, is a registration. The fleet hears transitions only, and nothing is polled: a cluster whose agents all
 * answer costs heartbeats and no workflow task. A newer agent of the same hosts takes the place of an older one.
 * Each word to the fleet carries the time at which it was told, which grows from word to word, so that a copy that comes late is known for one.
 * History: about 20 events for an agent's arrival, as many for a silence; the run continues as new by its own count of them.
 */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { PresenceTerms } from "../../protocol/agent-contract.ts";
import type { PresenceInput, PresentAgent, SilenceTerms } from "../../protocol/fleet.ts";
import type { Machine, Step } from "../machine.ts";
import { andThen, forEach, quiet } from "../steps.ts";
import type {
  Notice,
  Presence,
  PresenceCommand,
  PresenceEvent,
  WatchedAgent,
} from "./presence-state.ts";
import { givenUp, isAnnouncement } from "./present-agent.ts";
import { registrationsOf } from "./registrations.ts";

const CONTINUE_AT_EVENTS = 2_000;
/** Continuing costs as much for each agent, so many agents need a longer history between. */
const CONTINUE_AT_EVENTS_PER_AGENT = 60;
const EVENTS_PER_REPORT = 14;
const EVENTS_PER_NOTICE = 6;
const EVENTS_PER_TERMS = 6;
const EVENTS_PER_DEREGISTRATION = 4;
/** Temporal takes 10,000 signals a run, so junk must not use them up. Honest runs never come near it, so former histories replay. */
const CONTINUE_AT_JUNK = 1_000;
/** An agent that answers with an error (a full disk, say) is asked again. */
const ERROR_PAUSE_MS = 5_000;
const NO_FLEET_PAUSE_MS = 5_000;

/** Never used: terms are asked for before any agent is watched. */
const UNKNOWN_TERMS: SilenceTerms = { silenceMs: 90_000, fenceMs: 600_000, onSilence: "hold" };

type PresenceStep = Step<Presence, PresenceCommand>;

export const openPresence = ({
  fleet,
  cluster,
  agents = [],
  toldAtMs = 0,
}: PresenceInput): PresenceStep =>
  settled(
    quiet({
      fleet,
      cluster,
      agents: [],
      arrivals: agents,
      carried: agents.length,
      farewells: [],
      isReportDue: false,
      events: 0,
      junkSignals: 0,
      nextId: 1,
      toldAtMs,
    }),
  );

export const presenceMachine: Machine<Presence, PresenceEvent, PresenceCommand> = {
  step: (state, event, nowMs) => takenAlong(state, event) ?? settled(stepped(state, event, nowMs)),
  dueAtMs: ({ agents, farewells }) =>
    Math.min(
      Infinity,
      ...farewells.map(({ retryAtMs = Infinity }) => retryAtMs),
      ...agents.map(({ stage }) => {
        if (stage.kind === "pausing") return stage.untilMs;
        return stage.kind === "telling" ? (stage.notice.retryAtMs ?? Infinity) : Infinity;
      }),
    ),
};

/** Once the next run is settled, which may be while words are still looked at: who was announced by then goes with it. Undefined before. */
function takenAlong(
  state: Presence,
  event: PresenceEvent | { readonly kind: "tick" },
): PresenceStep | undefined {
  const { next, terms } = state;
  if (next === undefined) return undefined;
  const { agents = [] } = next;
  // Without terms nobody knows whether it is proven, and the next run believes those whom it begins with.
  if (event.kind !== "announced" || terms === undefined || !isAnnouncement(event.present, agents))
    return quiet(state);
  return quiet({ ...state, next: { ...next, agents: [...agents, event.present] } });
}

function stepped(
  state: Presence,
  event: PresenceEvent | { readonly kind: "tick" },
  nowMs: number,
): PresenceStep {
  switch (event.kind) {
    case "announced": {
      if (!isAnnouncement(event.present, [...state.agents, ...state.arrivals]))
        return quiet(withJunk(state));
      return quiet({ ...state, arrivals: [...state.arrivals, event.present] });
    }
    case "unknown-signal":
      return quiet(withJunk(state));
    case "deregistered": {
      const spent = { ...state, events: state.events + EVENTS_PER_DEREGISTRATION };
      const agent = spent.agents.find((each) => each.agent.epoch === event.epoch);
      return agent === undefined ? quiet(spent) : deregister(spent, agent, nowMs);
    }
    case "report-again":
      return quiet({ ...withJunk(state), isReportDue: true });
    case "terms": {
      const { askedTerms, ...known } = state;
      if (event.id !== askedTerms?.id) return quiet(state);
      const isDoubted = event.isProofAsked === true && state.terms === undefined;
      const fresh = {
        ...known,
        terms: event.terms,
        ...(isDoubted && { arrivals: state.arrivals.slice(0, state.carried) }),
      };
      return askedTerms.isRestart ? restarted(fresh) : quiet(fresh);
    }
    case "reported":
    case "report-failed":
    case "contact-over":
      return agentAnswered(state, event, nowMs);
    case "told":
      return noticeAnswered(state, event, nowMs);
    case "tick":
      return retried(state, nowMs);
  }
}

/** Whatever the event was: agents that have arrived are watched, and a run that has grown long continues once nothing is under way. */
function settled({ state, commands }: PresenceStep): PresenceStep {
  if (state.next !== undefined) return { state, commands };
  if (mustContinue(state) && !areArrivalsOpen(state)) {
    if (isTelling(state)) return { state, commands };
    const left = state.agents.map(({ agent, hosts }) => ({ agent, hosts }));
    const { fleet, cluster, arrivals, toldAtMs } = state;
    return {
      state: { ...state, next: { fleet, cluster, agents: [...left, ...arrivals], toldAtMs } },
      commands,
    };
  }
  if (state.askedTerms !== undefined) return { state, commands };
  if (state.arrivals.length === 0 && !state.isReportDue) return { state, commands };
  if (state.terms === undefined || state.isReportDue) return askTerms({ state, commands });
  const arrived: PresenceStep = { state: { ...state, arrivals: [] }, commands };
  return andThen(arrived, (now) => forEach(now, state.arrivals, welcome));
}

function askTerms({ state, commands }: PresenceStep): PresenceStep {
  const { nextId: id, isReportDue: isRestart } = state;
  return {
    state: {
      ...state,
      isReportDue: false,
      askedTerms: { id, isRestart },
      nextId: id + 1,
      events: state.events + EVENTS_PER_TERMS,
    },
    commands: [...commands, { kind: "ask-terms", id }],
  };
}

/** Every agent starts from the beginning: the terms may be new, and a fleet without a ledger needs every entry. */
function restarted(state: Presence): PresenceStep {
  const { state: free, commands } = forEach(state, state.agents, dismiss);
  const again = state.agents.map(({ agent, hosts }) => ({ agent, hosts }));
  return { state: { ...free, arrivals: [...free.arrivals, ...again] }, commands };
}

function welcome(state: Presence, present: PresentAgent): PresenceStep {
  const { agent, hosts } = present;
  if (state.agents.some((each) => each.agent.epoch === agent.epoch)) return quiet(state);
  const others = state.agents.filter((other) => other.hosts.some((host) => hosts.includes(host)));
  const newer = others.findIndex((other) => other.agent.epoch > agent.epoch);
  // A late announcement of an agent that has a successor; the older ones before it are gone all the same.
  const replaced = newer < 0 ? others : others.slice(0, newer);
  const madeRoom = replaced.length > 0 || newer >= 0 ? [] : givenUp(state.agents);
  if (madeRoom === undefined) return quiet(withJunk(state));
  const freed = forEach(state, [...replaced, ...madeRoom], dismiss);
  if (newer >= 0) return freed;
  return andThen(freed, (now) => askReport(now, { agent, hosts, isSilent: false }));
}

function dismiss(state: Presence, { agent, stage }: WatchedAgent): PresenceStep {
  const agents = state.agents.filter((each) => each.agent.epoch !== agent.epoch);
  const id = openId(stage);
  return {
    state: { ...state, agents },
    commands: id === undefined ? [] : [{ kind: "cancel", id }],
  };
}

/** The command of this stage that is still unanswered. */
function openId(stage: WatchedAgent["stage"]): number | undefined {
  if (stage.kind === "pausing") return undefined;
  if (stage.kind !== "telling") return stage.id;
  return stage.notice.retryAtMs === undefined ? stage.notice.id : undefined;
}

function deregister(state: Presence, watched: WatchedAgent, nowMs: number): PresenceStep {
  const { state: free, commands } = dismiss(state, watched);
  const { agent, hosts } = watched;
  const notice = noticeOf(free, { kind: "agent-deregistered", hosts, epoch: agent.epoch }, nowMs);
  return {
    state: { ...notice.state, farewells: [...free.farewells, notice.notice] },
    commands: [...commands, notice.command],
  };
}

/** Watches the agent, or goes on watching it, from the question what runs on its hosts. */
function askReport(state: Presence, of: Omit<WatchedAgent, "stage">): PresenceStep {
  const { agent, hosts, isSilent } = of;
  const terms = {
    fleet: state.fleet,
    epoch: agent.epoch,
    ...(state.terms ?? UNKNOWN_TERMS),
  };
  const { nextId: id } = state;
  const spent = { ...state, nextId: id + 1, events: state.events + EVENTS_PER_REPORT };
  return {
    state: withAgent(spent, { agent, hosts, isSilent, stage: { kind: "reporting", id, terms } }),
    commands: [{ kind: "report", id, to: { agent, hosts }, terms, isPatient: isSilent }],
  };
}

function agentAnswered(
  state: Presence,
  event: Extract<PresenceEvent, { kind: "reported" | "report-failed" | "contact-over" }>,
  nowMs: number,
): PresenceStep {
  const watched = state.agents.find(
    ({ stage }) =>
      (stage.kind === "reporting" || stage.kind === "in-contact") && stage.id === event.id,
  );
  if (watched === undefined) return quiet(state);
  const { stage } = watched;
  if (event.kind === "reported" && stage.kind === "reporting") {
    const entries = registrationsOf(event.report, stage.terms);
    return tell(state, { ...watched, isSilent: false }, { entries, contactOn: stage.terms, nowMs });
  }
  if (event.kind === "contact-over" && event.how === "ended")
    return deregister(state, watched, nowMs);
  if (event.kind === "report-failed" && (!event.isTimeout || watched.isSilent)) {
    const paused = {
      ...watched,
      stage: { kind: "pausing", untilMs: nowMs + ERROR_PAUSE_MS },
    } as const;
    return quiet(withAgent(state, paused));
  }
  const { hosts, agent } = watched;
  const entries: InboxEntry[] = [{ kind: "silence", hosts, epoch: agent.epoch }];
  return tell(state, { ...watched, isSilent: true }, { entries, nowMs });
}

/** Tells the fleet one entry after the other, then keeps contact or asks for the next report. */
function tell(
  state: Presence,
  watched: WatchedAgent,
  {
    entries,
    contactOn,
    nowMs,
  }: {
    readonly entries: readonly InboxEntry[];
    readonly contactOn?: PresenceTerms;
    readonly nowMs: number;
  },
): PresenceStep {
  const [entry, ...rest] = entries;
  if (entry === undefined)
    return contactOn === undefined
      ? askReport(state, watched)
      : keepContact(state, watched, contactOn);
  const { state: noted, notice, command } = noticeOf(state, entry, nowMs);
  const stage = { kind: "telling", notice, rest, ...(contactOn && { contactOn }) } as const;
  return { state: withAgent(noted, { ...watched, stage }), commands: [command] };
}

function keepContact(state: Presence, watched: WatchedAgent, terms: PresenceTerms): PresenceStep {
  const { nextId: id } = state;
  const { agent, hosts, isSilent } = watched;
  return {
    state: withAgent(
      { ...state, nextId: id + 1 },
      { ...watched, stage: { kind: "in-contact", id } },
    ),
    commands: [{ kind: "keep-contact", id, to: { agent, hosts }, terms, isPatient: isSilent }],
  };
}

/** The fleet has an entry, or there is no fleet: then it is told again after a pause. */
function noticeAnswered(
  state: Presence,
  { id, isDelivered }: Extract<PresenceEvent, { kind: "told" }>,
  nowMs: number,
): PresenceStep {
  const retryAtMs = nowMs + NO_FLEET_PAUSE_MS;
  const farewell = state.farewells.find((notice) => notice.id === id);
  if (farewell !== undefined) {
    const farewells = isDelivered
      ? state.farewells.filter((notice) => notice !== farewell)
      : state.farewells.map((notice) => (notice === farewell ? { ...notice, retryAtMs } : notice));
    return quiet({ ...state, farewells });
  }
  for (const watched of state.agents) {
    const { stage } = watched;
    if (stage.kind !== "telling" || stage.notice.id !== id) continue;
    if (isDelivered) return tell(state, watched, { ...stage, entries: stage.rest, nowMs });
    const waiting = { ...stage, notice: { ...stage.notice, retryAtMs } };
    return quiet(withAgent(state, { ...watched, stage: waiting }));
  }
  return quiet(state);
}

function retried(state: Presence, nowMs: number): PresenceStep {
  const farewells: Notice[] = [];
  let step: PresenceStep = quiet(state);
  for (const old of state.farewells) {
    if ((old.retryAtMs ?? Infinity) > nowMs) farewells.push(old);
    else {
      const { state: next, notice, command } = noticeOf(step.state, old.entry, nowMs);
      farewells.push(notice);
      step = { state: next, commands: [...step.commands, command] };
    }
  }
  const retold: PresenceStep = { ...step, state: { ...step.state, farewells } };
  return andThen(retold, (before) =>
    forEach(before, state.agents, (now, watched) => {
      const { stage } = watched;
      if (stage.kind === "pausing" && stage.untilMs <= nowMs) return askReport(now, watched);
      if (stage.kind !== "telling" || (stage.notice.retryAtMs ?? Infinity) > nowMs)
        return quiet(now);
      return tell(now, watched, { ...stage, entries: [stage.notice.entry, ...stage.rest], nowMs });
    }),
  );
}

function withAgent(state: Presence, watched: WatchedAgent): Presence {
  const { epoch } = watched.agent;
  const isKnown = state.agents.some(({ agent }) => agent.epoch === epoch);
  const agents = isKnown
    ? state.agents.map((each) => (each.agent.epoch === epoch ? watched : each))
    : [...state.agents, watched];
  return { ...state, agents };
}

function noticeOf(
  state: Presence,
  undated: InboxEntry,
  nowMs: number,
): { readonly state: Presence; readonly notice: Notice; readonly command: PresenceCommand } {
  const { nextId: id } = state;
  const toldAtMs = Math.max(state.toldAtMs + 1, nowMs);
  const events = state.events + EVENTS_PER_NOTICE;
  const spent = { ...state, nextId: id + 1, events, toldAtMs };
  const entry = dated(undated, toldAtMs);
  return { state: spent, notice: { entry, id }, command: { kind: "tell", id, entry } };
}

/** A word that goes again is as true as at first, so it is dated anew. */
function dated(entry: InboxEntry, toldAtMs: number): InboxEntry {
  const isOfAgent =
    entry.kind === "agent-registered" ||
    entry.kind === "silence" ||
    entry.kind === "agent-deregistered";
  return isOfAgent ? { ...entry, toldAtMs } : entry;
}

const withJunk = (state: Presence): Presence => ({ ...state, junkSignals: state.junkSignals + 1 });

const mustContinue = ({ events, agents, junkSignals }: Presence): boolean =>
  junkSignals >= CONTINUE_AT_JUNK ||
  events >= CONTINUE_AT_EVENTS + CONTINUE_AT_EVENTS_PER_AGENT * agents.length;

/** Whether somebody has announced himself of whom it is not known yet if he needs a proof: the next run would take him for one who was watched. */
const areArrivalsOpen = ({ terms, arrivals, carried }: Presence): boolean =>
  terms === undefined && arrivals.length > carried;

const isTelling = ({ agents, farewells }: Presence): boolean =>
  farewells.length > 0 || agents.some(({ stage }) => stage.kind === "telling");
