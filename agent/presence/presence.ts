/**
 * @file The agent's presence: it announces itself until the presence workflow starts a heartbeat activity, reports the leases that run on its
 * hosts, and keeps contact.
 *
 * The heartbeat activity outlives its function: its heartbeats need only the task token, so it takes no slot of the order queue, however long
 * it lasts. When the server has forgotten the activity, the workflow may be about to start another (a timeout, or a workflow that continued as
 * new). So the agent announces itself again only after a while without a question, and then in growing intervals until it is asked.
 */

import type { HostId } from "../../domain/values/ids.ts";
import type { PresenceBeat } from "../../domain/lease/gpu-use.ts";
import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { PresenceActivities } from "../../protocol/agent-contract.ts";
import type { AgentHost } from "../runs/agent-host.ts";
import type { Clock } from "../ports/clock.ts";
import type { HeartbeatTask } from "../ports/temporal.ts";
import { passingFailure, staysOpen } from "../system/failures.ts";
import type { ContactStore } from "./contact-store.ts";
import type { Fence } from "./fence.ts";
import { keepHeartbeat } from "./heartbeat.ts";
import { agentReport } from "./presence-report.ts";

export interface PresencePorts {
  readonly agent: AgentAddress;
  readonly hosts: ReadonlyMap<HostId, AgentHost>;
  readonly contacts: ContactStore;
  readonly fence: Fence;
  readonly clock: Clock;
  /** The heartbeat activity that is being executed. */
  readonly task: () => HeartbeatTask;
  /** When the server gave out the activity that is being executed, by its clock. */
  readonly givenAtMs: () => number;
  /** Announces the agent to the presence workflow; fails when the server did not answer. */
  readonly announce: () => Promise<void>;
  /** The agent ends. */
  readonly closing: AbortSignal;
  /** Called once, at the first heartbeat activity: the fleet has the agent's report by then. */
  readonly onHeartbeat?: () => void;
  /** What heartbeats tell beside that the agent is there. */
  readonly beat?: () => PresenceBeat | undefined;
}

export interface Presence {
  readonly activities: PresenceActivities;
  /** Announces the agent whenever no heartbeat activity runs; returns when the agent ends. */
  keep(): Promise<void>;
  /** Returns when every heartbeat activity was completed, or could not be soon. */
  ended(): Promise<void>;
}

/** Between two announcements that were heard and not acted on: perhaps no worker runs the workflow. */
const AGAIN_MS = { least: 30_000, most: 600_000 } as const;
/** Between two announcements that were not heard. */
const RETRY_MS = { least: 250, most: 10_000 } as const;
/** Of `silenceMs`: how long the workflow may take to start a heartbeat activity again. */
const PATIENCE_SHARE = 1 / 3;
const LAST_WORD_MS = 3_000;
/** A pause that only the bell ends. */
const LONG_MS = 3_600_000;

export function openPresence(ports: PresencePorts): Presence {
  const { agent, hosts, contacts, fence, clock, closing } = ports;
  const heartbeats = new Set<Promise<void>>();
  let isFirst = true;
  let patienceMs = 0;
  let askedAtMs = -Infinity;
  let bell = new AbortController();
  const noteAsked = (): void => {
    askedAtMs = clock.sinceBootMs();
    bell.abort();
    bell = new AbortController();
  };
  const pause = (forMs: number): Promise<void> =>
    clock.pause(forMs, AbortSignal.any([closing, bell.signal]));

  const onHeard = (sentAtMs: number): boolean => {
    // The fence first: a contact that comes too late saves no run.
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
          throw passingFailure(
            "HOST_REFUSED",
            `the agent of ${[...hosts.keys()].join(", ")} cannot write to its state folder. Make room there.`,
          );
        }
        contacts.noteAnswer(ports.givenAtMs());
        return Promise.resolve(agentReport(agent, hosts));
      },
      keepContact: (terms) => {
        noteAsked();
        patienceMs = terms.silenceMs * PATIENCE_SHARE;
        const task = ports.task();
        const heartbeat = keepHeartbeat(terms, { task, clock, onHeard, beat: ports.beat, closing })
          .then(async (end) => {
            if (end === "closing") await task.end("ended", LAST_WORD_MS);
            if (end === "cancelled") await task.end("cancelled", LAST_WORD_MS);
          })
          // An agent that is not heard is missed soon enough.
          .catch(() => undefined)
          .finally(() => {
            heartbeats.delete(heartbeat);
            noteAsked();
          });
        heartbeats.add(heartbeat);
        if (isFirst) ports.onHeartbeat?.();
        isFirst = false;
        throw staysOpen();
      },
    },

    keep: async () => {
      let againMs: number = AGAIN_MS.least;
      let retryMs: number = RETRY_MS.least;
      let nextAnnounceMs = -Infinity;
      while (!closing.aborted) {
        if (heartbeats.size > 0) {
          againMs = AGAIN_MS.least;
          nextAnnounceMs = -Infinity;
          await pause(LONG_MS);
          continue;
        }
        const leftMs = Math.max(askedAtMs + patienceMs, nextAnnounceMs) - clock.sinceBootMs();
        if (leftMs > 0) {
          await pause(leftMs);
          continue;
        }
        try {
          await ports.announce();
          retryMs = RETRY_MS.least;
          nextAnnounceMs = clock.sinceBootMs() + againMs;
          againMs = Math.min(againMs * 2, AGAIN_MS.most);
        } catch {
          nextAnnounceMs = clock.sinceBootMs() + retryMs;
          retryMs = Math.min(retryMs * 2, RETRY_MS.most);
        }
      }
    },

    ended: async () => {
      await Promise.all(heartbeats);
    },
  };
}
