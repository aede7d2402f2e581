/**
 * @file The order to dial out for a session: checked, used once, then carried in the background by this agent until its client has gone.
 *
 * The activity returns when the agent is at the relay. What is started waits for the client's word, whose hash the ticket has. An agent that ends hangs up
 * its sessions; jobs go on.
 */

import { contentHash } from "../../access/job-proof.ts";
import { sessionStartSchema, type SessionTicket } from "../../access/session-ticket.ts";
import { randomBytes } from "node:crypto";
import type { HostId } from "../../domain/values/ids.ts";
import type { RunOrder } from "../../protocol/agent-contract.ts";
import type {
  DialOrder,
  SessionActivities,
  SessionExit,
  SessionStart,
} from "../../protocol/session-contract.ts";
import { carry, type CarryEnd, type RelayPlace } from "../../streams/carry.ts";
import { createLink, type Link } from "../../streams/link.ts";
import { AGENT_PATH, CHANNEL, wordBytes, wordReader } from "../../streams/words.ts";
import { readJson } from "../folder/json-files.ts";
import type { LaunchPlan, RankPlan } from "../folder/launch-files.ts";
import type { SessionCheck } from "../ports/session-check.ts";
import { newestOrder, openRuns, type AgentHost } from "../runs/agent-host.ts";
import { phaseOf, type LocalRun } from "../runs/local-run.ts";
import { secretsOf } from "../runs/rank-secrets.ts";
import { failure } from "../system/failures.ts";
import { execPart } from "./exec-part.ts";
import { forwardPart } from "./forward-part.ts";
import type { SessionPart, SessionVoice } from "./session-end.ts";

export interface SessionPorts {
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly check: SessionCheck;
  /** Notes, in the name of the order that the running activity carries out, what its session is refused later. */
  readonly refusals: () => (order: DialOrder, why: string) => void;
  /** Aborted when the agent ends. */
  readonly closing: AbortSignal;
}

const MOST_SESSIONS = 256;
const DIAL_WITHIN_MS = 15_000;
/** Dials share the slots of orders to stop and to checkpoint: while so many are under way, further ones wait for less. */
const MANY_DIALS = 32;
const HURRIED_DIAL_MS = 2_000;
/** How long a client may be away before what it has started is ended. */
const GRACE_MS = 60_000;
const LOOK_EVERY_MS = 1_000;
/** In which the client says what is to be started. */
const START_WITHIN_MS = 30_000;
/** Bytes that were sent and not read, of all sessions of the agent: beyond it the session with most of them ends. */
const MOST_HELD_BYTES = 536_870_912;
const OTHER_FORM = "what is to be started has another form";
const WITHDRAWN = "the session has ended: this host has no jobs of the key that opened it any more";
const LOOPBACK = ["127.0.0.1", "[::1]", "localhost"];

export function createSessionActivities(ports: SessionPorts): SessionActivities {
  let open = 0;
  let dialling = 0;
  const links = new Set<Link>();
  return {
    async dial(order) {
      const { host, run, ticket, stored } = admitted(ports, order);
      const note = ports.refusals();
      const noteRefusal = (why: string): void => note(order, why);
      if (open >= MOST_SESSIONS)
        throw failure(
          "NOT_ALLOWED",
          `${host.id} has ${String(MOST_SESSIONS)} sessions already; try again when one has ended`,
        );
      open += 1;
      dialling += 1;
      const withinMs = dialling > MANY_DIALS ? HURRIED_DIAL_MS : DIAL_WITHIN_MS;
      try {
        const goesOn = (): boolean => ports.check.goesOn(ticket, stored);
        const session = openSession(run, ticket, {
          ...{ order, ports, withinMs, links, noteRefusal, goesOn },
        });
        void session.over.finally(() => {
          open -= 1;
        });
        await session.here;
      } catch (error) {
        throw failure(
          "NO_CONNECTION",
          `${host.id} cannot reach the submit service at ${ticket.relays.join(" or ")}: ${whyNot(ticket.relays, error)}. Agents on other machines need \`orbweaver api --port\` with --cert and --key.`,
        );
      } finally {
        dialling -= 1;
      }
    },
  };
}

interface Admitted {
  readonly host: AgentHost;
  readonly run: LocalRun;
  readonly ticket: SessionTicket;
  /** Of the launch. */
  readonly stored: RunOrder;
}

function admitted({ hosts, check }: SessionPorts, order: DialOrder): Admitted {
  const host = hosts.get(order.host);
  if (host === undefined) throw failure("HOST_REFUSED", `this agent does not serve ${order.host}`);
  const stored = newestOrder(host, order.leaseId);
  const ticket = check.opens(order, stored);
  if (typeof ticket === "string")
    throw failure("NOT_ALLOWED", `${order.host} opens no session with ${order.jobId}: ${ticket}`);
  const run = openRuns(host, order.leaseId).at(-1);
  const unknown = (why: string): Error =>
    failure("RUN_UNKNOWN", `rank ${String(ticket.rank)} of ${order.jobId}: ${why}`);
  if (stored?.taskBatch !== undefined)
    throw unknown("it is a job array, and sessions with tasks of an array are not possible");
  if (stored === undefined || run === undefined || phaseOf(run).kind !== "running")
    throw unknown(`it does not run on ${order.host} now`);
  return { host, run, ticket, stored };
}

interface OpenSession {
  /** Settled when the relay has taken the agent in, or will not. */
  readonly here: Promise<void>;
  readonly over: Promise<void>;
}

function openSession(
  run: LocalRun,
  ticket: SessionTicket,
  {
    order,
    ports,
    withinMs,
    links,
    noteRefusal,
    goesOn,
  }: {
    readonly order: DialOrder;
    readonly ports: SessionPorts;
    readonly withinMs: number;
    readonly noteRefusal: (why: string) => void;
    /** Whether its ticket would still be taken. */
    readonly goesOn: () => boolean;
    /** Of all sessions of the agent. */
    readonly links: Set<Link>;
  },
): OpenSession {
  const closed = new AbortController();
  let part: SessionPart | undefined;
  let idleMs = Infinity;
  const openedMs = performance.now();
  let lastByteMs = openedMs;
  const hear = wordReader((word) => {
    const { start } = word as { readonly start?: unknown };
    if (part !== undefined) part.onWord(word);
    else if (start !== undefined) {
      const parsed = sessionStartSchema.safeParse(start);
      if (!parsed.success) {
        noteRefusal(OTHER_FORM);
        throw new Error(OTHER_FORM);
      }
      idleMs = parsed.data.idleMs;
      part = started(run, ticket, { start: parsed.data, voice, check: ports.check, noteRefusal });
    }
  });
  const link: Link = createLink({
    onData(channel, bytes, taken) {
      lastByteMs = performance.now();
      if (channel !== CHANNEL.words) {
        if (part === undefined) taken();
        else part.onData(channel, bytes, taken);
        return;
      }
      taken();
      hear(bytes);
    },
    onEnd: (channel) => part?.onEnd(channel),
    onRoom: (channel) => part?.onRoom(channel),
  });
  const voice: SessionVoice = {
    say: (word) => {
      // A client that takes no words is none that can be served.
      if (!link.write(CHANNEL.words, wordBytes(word))) closed.abort();
    },
    write(channel, bytes) {
      lastByteMs = performance.now();
      return link.write(channel, bytes);
    },
    end: (channel) => link.end(channel),
    open: (channel) => link.open(channel),
    drop: (channel) => link.drop(channel),
  };
  links.add(link);
  for (const channel of Object.values(CHANNEL)) link.open(channel);
  const stop = (reason: NonNullable<SessionExit["reason"]>): void => {
    voice.say({ exit: { reason } });
    for (const channel of Object.values(CHANNEL)) link.end(channel);
    part?.hangUp();
    // The client says goodbye when it has read that.
    setTimeout(() => closed.abort(), LOOK_EVERY_MS).unref();
  };
  const looks = setInterval(() => {
    const isSilent = part === undefined && performance.now() - openedMs > START_WITHIN_MS;
    if (isSilent || performance.now() - lastByteMs > idleMs) stop("idle");
    else if (run.system.clock.nowMs() > ticket.ends) stop("time");
    else if (isTooHeavy(link, links)) stop("memory");
    else if (!goesOn()) {
      noteRefusal(WITHDRAWN);
      stop("withdrawn");
    }
    // A command ends with the job by itself.
    else if (ticket.verb === "port-forward" && phaseOf(run).kind !== "running") stop("job-ended");
    else return;
    clearInterval(looks);
  }, LOOK_EVERY_MS);
  const end = (): void => closed.abort();
  ports.closing.addEventListener("abort", end, { once: true });

  let dials = 0;
  const key = randomBytes(18).toString("base64url");
  const { promise: here, ...settle } = withResolvers();
  const late = setTimeout(() => {
    closed.abort();
    settle.reject(new Error("it does not answer"));
  }, withinMs);
  const carrying = carry(link, {
    place: () => placeOf(ticket.relays[dials++ % ticket.relays.length] ?? "", order.ticket, key),
    path: AGENT_PATH,
    graceMs: GRACE_MS,
    closed: closed.signal,
    onWord: () => settle.resolve(),
  });
  const over = carrying.then(({ message }: CarryEnd) => {
    links.delete(link);
    clearTimeout(late);
    ports.closing.removeEventListener("abort", end);
    clearInterval(looks);
    settle.reject(new Error(message));
    part?.hangUp();
  });
  here.then(
    () => clearTimeout(late),
    () => undefined,
  );
  return { here, over };
}

function started(
  run: LocalRun,
  ticket: SessionTicket,
  {
    start,
    voice,
    check,
    noteRefusal,
  }: {
    readonly start: SessionStart;
    readonly voice: SessionVoice;
    readonly check: SessionCheck;
    readonly noteRefusal: (why: string) => void;
  },
): SessionPart | undefined {
  const refuse = (why: string): undefined => {
    noteRefusal(why);
    return fail("NOT_ALLOWED", why);
  };
  const fail = (code: string, message: string): undefined => {
    voice.say({ failed: { code, message } });
    for (const channel of Object.values(CHANNEL)) voice.end(channel);
    return undefined;
  };
  if (ticket.hash !== contentHash(start))
    return refuse("what is to be started differs from what its ticket says");
  const refusal = check.starts(ticket, start);
  if (refusal !== undefined) return refuse(refusal);
  if (ticket.verb === "port-forward") return forwardPart(run, ticket.port ?? 0, voice);
  const { files } = run.system;
  const plan = readJson<LaunchPlan>(files, run.files.plan);
  const rank = plan?.ranks.find((candidate: RankPlan) => candidate.rank === ticket.rank);
  const phase = phaseOf(run);
  if (plan === undefined || rank === undefined || phase.kind !== "running")
    return fail("RUN_UNKNOWN", `rank ${String(ticket.rank)} does not run here now`);
  const beside = phase.status.ranks.find((each) => each.rank === ticket.rank)?.process;
  const env = { ...rank.env, ...secretsOf(run.system.processes, plan, beside) };
  return execPart({ launch: run, plan, rank: { ...rank, env } }, start, voice);
}

/**
 * Whoever has signed a job can name any path as a relay, and the agent may be root: what is there, or is not, is not told.
 */
function whyNot(relays: readonly string[], error: unknown): string {
  if (relays.some((relay) => relay.startsWith("unix:"))) return "it does not answer there";
  return error instanceof Error ? error.message : String(error);
}

function isTooHeavy(link: Link, links: ReadonlySet<Link>): boolean {
  const own = link.heldBytes();
  // The heaviest of them all is never below its even share.
  if (own <= MOST_HELD_BYTES / MOST_SESSIONS) return false;
  const held = [...links].map((each) => each.heldBytes());
  const sum = held.reduce((total, bytes) => total + bytes, 0);
  return sum > MOST_HELD_BYTES && own === Math.max(...held);
}

/** Plain HTTP never leaves the machine: what is typed may be a password. */
function placeOf(relay: string, ticket: string, key: string): RelayPlace {
  const headers = { "X-Orbweaver-Ticket": ticket, "X-Orbweaver-Key": key };
  if (relay.startsWith("unix:")) return { socket: relay.slice("unix:".length), headers };
  const url = URL.canParse(relay) ? new URL(relay) : undefined;
  if (url?.protocol === "https:") return { url, headers };
  if (url?.protocol === "http:" && LOOPBACK.includes(url.hostname)) return { url, headers };
  return { socket: "/nonexistent", headers };
}

function withResolvers(): {
  readonly promise: Promise<void>;
  readonly resolve: () => void;
  readonly reject: (error: Error) => void;
} {
  let resolve: () => void = () => undefined;
  let reject: (error: Error) => void = () => undefined;
  const promise = new Promise<void>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
