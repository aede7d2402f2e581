/**
 * @file A user's end of an interactive session, by a submit service: what it asks for, its words and channels, and its way back after a broken connection.
 */

import { FAILURE_CODES } from "../domain/values/codes.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import type {
  AgentWord,
  ClientWord,
  SessionExit,
  SessionStart,
} from "../protocol/session-contract.ts";
import { carry } from "../streams/carry.ts";
import { createLink } from "../streams/link.ts";
import { CHANNEL, CLIENT_PATH, wordBytes, wordReader } from "../streams/words.ts";
import { addressText, type ServiceAddress } from "./service-request.ts";

export interface SessionRequest {
  readonly job: string;
  readonly rank: number;
  readonly verb: "exec" | "port-forward";
  readonly port?: number;
  readonly start: SessionStart;
}

export interface SessionEvents {
  readonly onData: (channel: number, bytes: Buffer, taken: () => void) => void;
  readonly onEnd?: (channel: number) => void;
  readonly onRoom: (channel: number) => void;
  readonly onWord?: (word: AgentWord) => void;
  /** The agent is there, or was lost and is looked for. */
  readonly onPaired?: (isPaired: boolean) => void;
}

export interface UserSession {
  readonly say: (word: ClientWord) => void;
  /** False: no more until `onRoom`. */
  readonly write: (channel: number, bytes: Buffer) => boolean;
  readonly end: (channel: number) => void;
  readonly open: (channel: number) => void;
  readonly drop: (channel: number) => void;
  readonly close: () => void;
  /**
   * Its end: the exit of what was started, once its output was taken; undefined when this end closed it. Throws the service's or the host's refusal, and
   * NO_CONNECTION when the other end was away for too long.
   */
  readonly over: Promise<SessionExit | undefined>;
}

/** The agent gives up after the same time. */
const GRACE_MS = 60_000;

export function openUserSession(
  address: ServiceAddress,
  request: SessionRequest,
  events: SessionEvents,
): UserSession {
  const closed = new AbortController();
  let ticket: string | undefined;
  let exit: SessionExit | undefined;
  let failed: OrbweaverError | undefined;
  /** Of what was started, until each has ended. */
  const left = new Set<number>([CHANNEL.words, CHANNEL.output, CHANNEL.errors]);
  const hear = wordReader((said) => {
    const word = said as AgentWord; // the agent's own words, at worst without a meaning
    if ("exit" in word) exit = word.exit;
    if ("failed" in word) failed = errorOf(word.failed);
    events.onWord?.(word);
  });
  const link = createLink({
    onData(channel, bytes, taken) {
      if (channel !== CHANNEL.words) return events.onData(channel, bytes, taken);
      taken();
      hear(bytes);
    },
    onEnd(channel) {
      events.onEnd?.(channel);
      left.delete(channel);
      // Its last word has left this process by then, so the goodbye says that it was read.
      if (left.size === 0) setImmediate(() => closed.abort());
    },
    onRoom: events.onRoom,
  });
  for (const channel of Object.values(CHANNEL)) link.open(channel);
  const say = (word: ClientWord): void => void link.write(CHANNEL.words, wordBytes(word));
  say({ start: request.start });
  const { url, socket, token, certificate } = address;
  const over = carry(link, {
    place: () => ({
      ...{ url, socket, certificate },
      headers: token === undefined ? {} : { Authorization: `Bearer ${token}` },
    }),
    path: CLIENT_PATH,
    greeting: () => JSON.stringify(ticket === undefined ? { open: request } : { resume: ticket }),
    graceMs: GRACE_MS,
    closed: closed.signal,
    onWord: (word) => {
      ticket = word.ticket ?? ticket;
    },
    ...(events.onPaired !== undefined && { onPaired: events.onPaired }),
  }).then((end) => {
    if (failed !== undefined) throw failed;
    if (end.kind === "closed" || exit !== undefined) return exit;
    throw errorOf(
      end.code === "NO_CONNECTION" && end.kind === "lost"
        ? {
            code: end.code,
            message: `the session with ${request.job} is lost: ${end.message} (${addressText(address)})`,
          }
        : end,
    );
  });
  return {
    say,
    ...{ write: link.write, end: link.end, open: link.open, drop: link.drop },
    close: () => closed.abort(),
    over,
  };
}

function errorOf({ code, message }: { readonly code: string; readonly message: string }) {
  const known = FAILURE_CODES.find((each) => each === code) ?? "NO_CONNECTION";
  return new OrbweaverError(known, message);
}
