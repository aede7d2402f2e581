/**
 * @file The agent's presence: it says `here` until somebody attends it, answers what runs on its hosts, and keeps contact.
 *
 * `attend` outlives its function: the task token is all that its heartbeats need, so an attendance takes no slot of the order
 * queue, however long it lasts. When the server knows it no more, whoever forgot may be about to ask by itself (a timeout, a
 * workflow that continued as new), so `here` is said again only when nobody has asked for a while; and it is said again as
 * long as nobody attends, in growing intervals.
 */

import { ApplicationFailure, CompleteAsyncError } from "@temporalio/activity";
import type { HostId } from "../../domain/ids.ts";
import type { AgentAddress } from "../../scheduling/ledger.ts";
import type { PresenceActivities } from "../agent-contract.ts";
import { abortablePause } from "./abortable-pause.ts";
import type { AgentHost } from "./agent-host.ts";
import type { ContactBook } from "./contact-book.ts";
import type { Fence } from "./fence.ts";
import type { Clock } from "./monotonic-clock.ts";
import { keepAttendance } from "./presence-attendance.ts";
import { agentReport } from "./presence-report.ts";
import type { AttendTask } from "./presence-task.ts";

export interface PresencePorts {
  readonly agent: AgentAddress;
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly contacts: ContactBook;
  readonly fence: Fence;
  readonly clock: Clock;
  /** The `attend` activity that is being executed. */
  readonly task: () => AttendTask;
  /** Asks to be attended; fails when nobody heard it. */
  readonly sayHere: () => Promise<void>;
  /** The agent ends. */
  readonly closing: AbortSignal;
  /** Called once, when the agent is attended: the fleet has its report by then. */
  readonly onAttended?: () => void;
}

export interface Presence {
  readonly activities: PresenceActivities;
  /** Sees to it that somebody attends; returns when the agent ends. */
  keep(): Promise<void>;
  /** Returns when every attendance has had its last word, or could not have it soon. */
  ended(): Promise<void>;
}

/** Between two calls of `here` that were heard and not acted on: nobody may be there to run the workflow. */
const AGAIN_MS = { least: 30_000, most: 600_000 } as const;
/** Between two calls that were not heard. */
const RETRY_MS = { least: 250, most: 10_000 } as const;
/** Of `silenceMs`: how long whoever has forgotten an attendance may take to begin another. */
const PATIENCE_SHARE = 1 / 3;
const LAST_WORD_MS = 3_000;
/** A pause that only a bell ends. */
const LONG_MS = 3_600_000;

export function openPresence(ports: PresencePorts): Presence {
  const { agent, hosts, contacts, fence, clock, closing } = ports;
  const attendances = new Set<Promise<void>>();
  let isFirst = true;
  let patienceMs = 0;
  let askedAtMs = -Infinity;
  let bell = new AbortController();
  const noteAsked = (): void => {
    askedAtMs = clock();
    bell.abort();
    bell = new AbortController();
  };
  const pause = (forMs: number): Promise<void> =>
    abortablePause(forMs, AbortSignal.any([closing, bell.signal]));

  const onHeard = (sentAtMs: number): boolean => {
    // First what has to be stopped for the silence before: a contact that comes too late saves nothing.
    fence.look();
    return contacts.note(sentAtMs);
  };

  return {
    activities: {
      report: (terms) => {
        noteAsked();
        patienceMs = terms.silenceMs * PATIENCE_SHARE;
        fence.look();
        if (!contacts.agree(terms)) {
          throw ApplicationFailure.retryable(
            `the agent of ${[...hosts.keys()].join(", ")} cannot write to its state folder. Make room there.`,
            "HOST_REFUSED",
          );
        }
        return Promise.resolve(agentReport(agent, hosts));
      },
      attend: (terms) => {
        noteAsked();
        patienceMs = terms.silenceMs * PATIENCE_SHARE;
        const task = ports.task();
        const attendance = keepAttendance(terms, { task, clock, onHeard, closing })
          .then(async (end) => {
            if (end === "closing") await task.end("ended", LAST_WORD_MS);
            if (end === "cancelled") await task.end("cancelled", LAST_WORD_MS);
          })
          // What is not heard of an agent shows soon enough.
          .catch(() => undefined)
          .finally(() => {
            attendances.delete(attendance);
            noteAsked();
          });
        attendances.add(attendance);
        if (isFirst) ports.onAttended?.();
        isFirst = false;
        throw new CompleteAsyncError();
      },
    },

    keep: async () => {
      let againMs: number = AGAIN_MS.least;
      let retryMs: number = RETRY_MS.least;
      let nextSayMs = -Infinity;
      while (!closing.aborted) {
        if (attendances.size > 0) {
          againMs = AGAIN_MS.least;
          nextSayMs = -Infinity;
          await pause(LONG_MS);
          continue;
        }
        const leftMs = Math.max(askedAtMs + patienceMs, nextSayMs) - clock();
        if (leftMs > 0) {
          await pause(leftMs);
          continue;
        }
        try {
          await ports.sayHere();
          retryMs = RETRY_MS.least;
          nextSayMs = clock() + againMs;
          againMs = Math.min(againMs * 2, AGAIN_MS.most);
        } catch {
          nextSayMs = clock() + retryMs;
          retryMs = Math.min(retryMs * 2, RETRY_MS.most);
        }
      }
    },

    ended: async () => {
      await Promise.all(attendances);
    },
  };
}
