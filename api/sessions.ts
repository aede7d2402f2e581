/**
 * @file Interactive sessions of users with what runs on hosts: who may open one, the order that has the agent dial in, and the relay for both ends.
 *
 * A client comes through a door that knows it, and says what it wants; its right is that to change the job. The answer is a ticket, signed with the key that
 * has signed the job: for the agent the order to dial in, for the client its way back after a broken connection. Each session has a line in the audit
 * before its order leaves. Tickets alone bring both ends together again, so a service that was started again goes on with the sessions of the former.
 */

import type { IncomingMessage } from "node:http";
import type { Socket } from "node:net";
import { randomBytes } from "node:crypto";
import { WebSocketServer, type WebSocket } from "ws";
import { z } from "zod";
import type { AuditEntry, AuditLog } from "../access/audit-log.ts";
import { contentHash } from "../access/job-proof.ts";
import { fleetRefusal, rightsOf, type Principal } from "../access/principal.ts";
import {
  checkSessionTicket,
  LONGEST_SESSION_MS,
  SESSION_TICKET_MS,
  sessionStartSchema,
  signSessionTicket,
  type SessionTicket,
} from "../access/session-ticket.ts";
import { asked, translated } from "../client/index.ts";
import { parsedJobId } from "../client/job-handle.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type { HostId, LeaseId } from "../domain/values/ids.ts";
import { each } from "../lib/each.ts";
import { OWN_PRIORITY } from "../protocol/fair-tasks.ts";
import { JOB_TASK_QUEUE, SESSION_WORKFLOW } from "../protocol/messages.ts";
import { SESSION_RULES, type SessionInput } from "../protocol/session-contract.ts";
import { MAX_FRAME_BYTES } from "../streams/frame.ts";
import { createRelay, RELAY, type RelayOptions } from "../streams/relay.ts";
import { AGENT_PATH, CLIENT_PATH } from "../streams/words.ts";
import { senderOf, urlOf, type Door } from "./door.ts";
import { allowedToRun } from "./job-facts.ts";
import { AccessRefusal, insist, type Caller, type ServedFleet } from "./route.ts";
import type { SessionMemory } from "./session-memory.ts";
import { askedAgain, sessionRefusal, type SessionOwner } from "./session-review.ts";
import { createShares } from "./shares.ts";

export interface SessionDoor {
  /** Fails for nothing that a stranger can do. */
  readonly take: (upgrade: Upgrade, door: Door) => Promise<void>;
  /** Ends, with a line in the audit, sessions whose users might not open them any more. */
  readonly review: () => Promise<void>;
  readonly close: () => void;
}

export interface Upgrade {
  readonly request: IncomingMessage;
  readonly socket: Socket;
  readonly first: Buffer;
  /** Who asks has shown a right to it. */
  readonly onKnown?: () => void;
}

export interface SessionParts {
  readonly served: ServedFleet;
  readonly access: () => Access;
  readonly audit: AuditLog;
  readonly memory: SessionMemory;
  /** Where agents reach this service, the best first. */
  readonly relays: () => readonly string[];
  readonly limits?: SessionLimits;
  readonly relay?: RelayOptions;
}

export interface SessionLimits {
  /** Also of connections that are no session yet. */
  readonly ofSender: number;
  readonly ofAll: number;
}

export const SESSION_LIMITS: SessionLimits = Object.freeze({ ofSender: 128, ofAll: 400 });

const GREET_WITHIN_MS = 10_000;
/** So long one that was refused may take to leave. */
const LEAVE_WITHIN_MS = 2_000;
const MAX_START_CHARS = 65_536;

const openSchema = z.strictObject({
  job: z.string().min(1).max(200),
  rank: z.number().int().min(0).max(100_000),
  verb: z.enum(["exec", "port-forward"]),
  port: z.number().int().min(1).max(65_535).exactOptional(),
  start: sessionStartSchema,
});
type OpenRequest = z.output<typeof openSchema>;

const greetingSchema = z.union([
  z.strictObject({ open: openSchema }),
  z.strictObject({ resume: z.string() }),
]);

export function createSessionDoor(parts: SessionParts): SessionDoor {
  const { limits = SESSION_LIMITS, memory } = parts;
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload: MAX_FRAME_BYTES,
    perMessageDeflate: false,
    clientTracking: false,
  });
  /** Sessions that are open, and whose they are. `held`: once their client has come. */
  const open = new Map<string, { readonly of: string; held?: Held }>();
  /** Connections of each sender that are no session yet. */
  const greetings = createShares();
  const relay = createRelay({
    ...(parts.relay ?? RELAY),
    onOver(id) {
      open.delete(id);
      memory.noteOver(id);
    },
  });

  function takeAgent({ request, socket, first, onKnown }: Upgrade, door: Door): void {
    const signed = request.headers["x-orbweaver-ticket"];
    const key = request.headers["x-orbweaver-key"];
    const check = checkSessionTicket(signed, parts.served.ownKeys());
    const refused = (why: string, job?: string): void => {
      const line = { who: door.who, from: door.fromOf(socket), act: "session-agent" };
      const about = job === undefined ? {} : { job };
      parts.audit.add({ ...line, ...about, verdict: "refused", why });
      refuse(socket, 401);
    };
    if (check.kind === "refused") return refused(check.reason);
    const { nonce, ends, principal, job } = check.ticket;
    if (typeof key !== "string") return refused("it shows no key of its own", job);
    if (Date.now() > ends || memory.isOver(nonce))
      return refused(`the session of ${principal} is over`, job);
    if (!memory.isAgents(nonce, key))
      return refused(`the ticket of ${principal} is in use by another agent`, job);
    memory.noteAgent(nonce, key);
    open.set(nonce, { of: principal, ...open.get(nonce) });
    onKnown?.();
    sockets.handleUpgrade(request, socket, first, (agent) => {
      agent.on("error", () => agent.terminate());
      agent.send("{}");
      relay.join(nonce, "agent", agent);
    });
  }

  const enter = (id: string, { name }: Principal, held: Held): void => {
    const own = [...open.values()].filter(({ of }) => of === name).length;
    if (!open.has(id) && (own >= limits.ofSender || open.size >= limits.ofAll))
      throw new AccessRefusal(
        `${name} has ${String(own)} sessions here, of ${String(open.size)} in all; try again when one has ended`,
      );
    open.set(id, { of: name, ...open.get(id), held });
  };

  async function resumeClient(
    caller: Caller,
    signed: string,
    { client, line, askAgain }: Entering,
  ): Promise<void> {
    const check = checkSessionTicket(signed, parts.served.ownKeys());
    if (check.kind === "refused") throw new AccessRefusal(check.reason);
    const { nonce, principal, ends, job, verb } = check.ticket;
    if (principal !== caller.principal.name)
      throw new AccessRefusal(`this session is ${principal}'s`);
    if (memory.isOver(nonce) || Date.now() > ends)
      throw new OrbweaverError("NOT_FOUND", "the session is over");
    await allowedToRun(parts.served, caller, job);
    if (client.readyState !== client.OPEN) return;
    const { principal: own } = caller;
    enter(nonce, own, { principal: own, job, askAgain, line: { ...line, act: verb, job } });
    relay.join(nonce, "client", client);
  }

  async function openClient(
    caller: Caller,
    wanted: OpenRequest,
    { client, line, askAgain }: Entering,
  ): Promise<void> {
    const { served, audit } = parts;
    const { signedBy } = await allowedToRun(served, caller, wanted.job);
    const place = await placeOf(served, wanted);
    // Whoever went meanwhile leaves nothing behind.
    if (client.readyState !== client.OPEN) return;
    const nonce = randomBytes(18).toString("base64url");
    const now = Date.now();
    const api = served.apiIdentity();
    const claims: Omit<SessionTicket, "kind" | "by"> = {
      ...{ principal: caller.principal.name, job: wanted.job, ...place },
      ...{ rank: wanted.rank, verb: wanted.verb, hash: contentHash(wanted.start), nonce },
      ...(wanted.port !== undefined && { port: wanted.port }),
      relays: [...parts.relays()],
      ...{ until: now + SESSION_TICKET_MS, ends: now + LONGEST_SESSION_MS },
    };
    const signer = signedBy === api.publicKey ? api : served.ownIdentity();
    const ticket = signSessionTicket(claims, signer);
    const { principal } = caller;
    enter(nonce, principal, { principal, job: wanted.job, askAgain, line });
    try {
      audit.add({ ...line, verdict: "accepted", why: whatFor(wanted) });
    } catch (error) {
      open.delete(nonce);
      throw error;
    }
    client.send(JSON.stringify({ ticket }));
    relay.join(nonce, "client", client);
    try {
      await orderDial(served, place, { ...wanted, nonce, ticket });
    } catch (thrown) {
      const error = translated(thrown, `the agent of ${place.host}`);
      const why = error instanceof Error ? error.message : String(error);
      audit.add({ ...line, verdict: "failed", why });
      const code = error instanceof OrbweaverError ? error.code : "NO_CONNECTION";
      relay.end(nonce, { code, message: why });
    }
  }

  async function takeClient(
    { request, socket, first, onKnown }: Upgrade,
    door: Door,
  ): Promise<void> {
    const from = door.fromOf(socket);
    const sender = await senderOf(door, request);
    // It has gone meanwhile, and would never be told off.
    if (socket.destroyed) return;
    const line = { who: door.who, from, act: "session" };
    if ("said" in sender) {
      parts.audit.add({ ...line, verdict: "refused", why: `who asks is not known: ${sender.why}` });
      return refuse(socket, 401);
    }
    const caller = { principal: sender, rights: rightsOf(sender, parts.access()) };
    const known = { ...line, who: sender.name, from: `${sender.via} ${from}`.trim() };
    const leave = greetings.enter(sender.name, limits.ofSender);
    if (leave === undefined) {
      const why = `${sender.name} asks for ${String(limits.ofSender)} sessions at once already`;
      parts.audit.add({ ...known, verdict: "refused", why });
      return refuse(socket, 429);
    }
    socket.once("close", leave);
    onKnown?.();
    sockets.handleUpgrade(request, socket, first, (client) => {
      client.on("error", () => client.terminate());
      const late = setTimeout(() => client.terminate(), GREET_WITHIN_MS);
      client.once("message", (data: Buffer, isBinary: boolean) => {
        clearTimeout(late);
        // Set before the greeting is answered, because the answer awaits.
        let named: Line = known;
        const greeted = async (): Promise<void> => {
          const greeting = greetingIn(isBinary ? "" : data.toString("utf8"));
          insist(fleetRefusal(sender, caller.rights));
          const askAgain = askedAgain(sender, { socket, senderOf: () => door.senderOf(request) });
          const entering = { client, line: known, askAgain };
          if ("resume" in greeting) return await resumeClient(caller, greeting.resume, entering);
          const { verb, job } = greeting.open;
          named = { ...known, act: verb, job };
          await openClient(caller, greeting.open, { ...entering, line: named });
        };
        greeted().then(leave, (error: unknown) => {
          const why = error instanceof Error ? error.message : String(error);
          const code = error instanceof OrbweaverError ? error.code : "NO_CONNECTION";
          try {
            parts.audit.add({ ...named, verdict: "refused", why });
          } catch {
            // What the audit cannot take was not done, and the asker hears so.
          }
          client.send(JSON.stringify({ error: { code, message: why } }));
          client.close(1_000);
          setTimeout(() => client.terminate(), LEAVE_WITHIN_MS).unref();
        });
      });
      client.once("close", () => clearTimeout(late));
    });
  }

  return {
    async take(upgrade, door) {
      // It may go while it is asked who it is.
      upgrade.socket.on("error", () => upgrade.socket.destroy());
      const pathname = urlOf(upgrade.request)?.pathname;
      if (pathname === AGENT_PATH) takeAgent(upgrade, door);
      else if (pathname === CLIENT_PATH) await takeClient(upgrade, door);
      else refuse(upgrade.socket, 404);
    },
    async review() {
      await each([...open], async ([nonce, { held }]) => {
        if (held === undefined) return;
        const why = await sessionRefusal(parts.served, parts.access(), held);
        if (why === undefined || !open.has(nonce)) return;
        // Written however many refusals of this sender are only counted.
        parts.audit.add({ ...held.line, verdict: "failed", why: `its session is ended: ${why}` });
        relay.end(nonce, { code: "NOT_ALLOWED", message: `the session is ended: ${why}` });
      });
    },
    close: () => relay.close(),
  };
}

type Line = Omit<AuditEntry, "verdict">;

interface Held extends SessionOwner {
  readonly line: Line;
}

interface Entering extends Pick<SessionOwner, "askAgain"> {
  readonly client: WebSocket;
  readonly line: Line;
}

function greetingIn(text: string): z.output<typeof greetingSchema> {
  if (text.length > MAX_START_CHARS)
    throw new OrbweaverError("REQUEST_TOO_LARGE", "the command line is too long");
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    value = undefined;
  }
  const parsed = greetingSchema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new OrbweaverError(
    "BAD_INPUT",
    `no request for a session: ${z.prettifyError(parsed.error)}`,
  );
}

interface RankPlace {
  readonly host: HostId;
  readonly lease: LeaseId;
}

/** Where the rank runs now. Throws NOT_FOUND and NOT_ALLOWED. */
async function placeOf({ client }: ServedFleet, { job, rank }: OpenRequest): Promise<RankPlace> {
  const { attempts, state, array } = await client.job(job).view();
  const attempt = attempts.at(-1);
  if (array !== undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${job} is an array; sessions are with jobs of one gang`,
    );
  if (attempt === undefined || attempt.end !== undefined)
    throw new OrbweaverError(
      "NOT_ALLOWED",
      `job ${job} does not run now (${state}). \`orbweaver status ${job}\` says more.`,
    );
  const part = attempt.gpus.find(({ ranks }) => ranks.includes(rank));
  if (part !== undefined) return { host: part.host, lease: attempt.leaseId };
  const ranks = attempt.gpus.flatMap((each) => each.ranks);
  throw new OrbweaverError(
    "NOT_FOUND",
    `job ${job} has no rank ${String(rank)}; its ranks are 0 to ${String(ranks.length - 1)}`,
  );
}

/** For the audit. */
const whatFor = ({ rank, port, start: { command = [] } }: OpenRequest): string =>
  `rank ${String(rank)}${port === undefined ? "" : `, port ${String(port)}`}${command.length === 0 ? "" : `: ${command.join(" ")}`}`;

/** Returns when the agent is here. Throws what the agent says. */
async function orderDial(
  { temporal, fleet }: ServedFleet,
  { host, lease }: RankPlace,
  {
    job,
    rank,
    nonce,
    ticket,
  }: Pick<OpenRequest, "job" | "rank"> & { readonly nonce: string; readonly ticket: string },
): Promise<void> {
  const input: SessionInput = {
    ...{ rules: SESSION_RULES, fleet },
    order: { jobId: parsedJobId(job), host, leaseId: lease, ticket },
  };
  const subject = `the agent of ${host}`;
  const call = () =>
    temporal.workflow.execute(SESSION_WORKFLOW, {
      workflowId: `session-${job}-${nonce}`,
      workflowExecutionTimeout: SESSION_TICKET_MS,
      taskQueue: JOB_TASK_QUEUE,
      priority: OWN_PRIORITY,
      args: [input],
      staticSummary: `a session with rank ${String(rank)} of ${job}`,
    });
  try {
    await asked(temporal, subject, call, { withinMs: SESSION_TICKET_MS });
  } catch (error) {
    if (error instanceof OrbweaverError) throw error;
    const message = `${subject} has not taken the order to dial in: it is down, or of a release without sessions`;
    throw new OrbweaverError("NO_CONNECTION", message, { cause: error });
  }
}

function refuse(socket: Socket, status: number): void {
  socket.end(`HTTP/1.1 ${String(status)} Refused\r\nConnection: close\r\n\r\n`, () =>
    socket.destroy(),
  );
}
