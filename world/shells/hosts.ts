/** @file The workflows of presences and sweeps in a world, as `workflows/hosts/` carries them out. */

import type { HostId } from "../../domain/values/ids.ts";
import type {
  Presence,
  PresenceCommand,
  PresenceEvent,
} from "../../machines/hosts/presence-state.ts";
import { openPresence, presenceMachine } from "../../machines/hosts/presence.ts";
import {
  openSweep,
  sweepMachine,
  type Sweep,
  type SweepCommand,
  type SweepEvent,
} from "../../machines/hosts/sweep.ts";
import { mayHaveLease, silenceTermsOf } from "../../machines/fleet/view.ts";
import type { AgentReport, StopReport } from "../../protocol/agent-contract.ts";
import type { AgentAddress } from "../../domain/lease/inbox-entry.ts";
import type { PresenceInput, SilenceTerms, SweepInput } from "../../protocol/fleet.ts";
import { fleetWorkflowId } from "../../protocol/names.ts";
import type { Activity, ActivityEnd } from "../temporal/activity.ts";
import { openRun } from "../temporal/run.ts";
import type { WorkflowRun, WorkflowType } from "../temporal/workflow.ts";
import { keepContact, reportOf } from "../hosts/agent-presence.ts";
import { stopOn } from "../hosts/agent.ts";
import type { Agents } from "../hosts/agents.ts";
import { askFleet, JOB_QUEUE, type Site } from "./site.ts";

const UNLIMITED_MS = 365 * 24 * 3_600_000;
const FAILED: ActivityEnd<never> = { kind: "failed", code: "UNAVAILABLE" };
const DEFAULT_TERMS: SilenceTerms = { silenceMs: 90_000, fenceMs: 600_000, onSilence: "fence" };

type PresenceRun = WorkflowRun<Presence, PresenceEvent>;
type SweepRun = WorkflowRun<Sweep, SweepEvent>;

const noLocal = {
  atOnce: () => undefined,
  isLocal: () => false,
  *local() {
    return undefined;
  },
} as const;

export function registerHosts(site: Site, agents: Agents): void {
  const { server, planted } = site;
  server.register("presence", (identity, input) => {
    const given = input as PresenceInput; // of an agent, or of the run before
    const open = new Map<number, Activity>();
    const type: WorkflowType<Presence, PresenceEvent, PresenceCommand> = {
      ...noLocal,
      queue: JOB_QUEUE,
      machine: planted.presence?.(presenceMachine) ?? presenceMachine,
      open: () => openPresence(given),
      signal: (name, payload) => {
        if (name === "announce") return { kind: "announced", present: payload };
        if (name === "deregister")
          return { kind: "deregistered", epoch: (payload as { readonly epoch?: unknown }).epoch };
        return name === "report-again" ? { kind: name } : { kind: "unknown-signal" };
      },
      carryOut: (command, run) => attend({ site, agents, open, given }, command, run),
      endOf: ({ next }) => next && { kind: "continued", input: next },
    };
    return openRun(server, type, identity);
  });
  server.register("sweep", (identity, input) => {
    const given = input as SweepInput; // of the fleet, or of the run before
    const type: WorkflowType<Sweep, SweepEvent, SweepCommand> = {
      ...noLocal,
      queue: JOB_QUEUE,
      machine: planted.sweep?.(sweepMachine) ?? sweepMachine,
      open: () => openSweep(given),
      signal: () => undefined,
      carryOut: (command, run) => sweep({ site, agents, given }, command, run),
      endOf: ({ end, left }) => {
        if (end === undefined) return undefined;
        return end.next === undefined
          ? { kind: "completed", result: left }
          : { kind: "continued", input: end.next };
      },
    };
    return openRun(server, type, identity);
  });
}

function attend(
  {
    site,
    agents,
    open,
    given,
  }: {
    readonly site: Site;
    readonly agents: Agents;
    readonly open: Map<number, Activity>;
    readonly given: PresenceInput;
  },
  command: PresenceCommand,
  run: PresenceRun,
): void {
  const answer = (event: PresenceEvent): void => run.arrive({ kind: "event", event });
  const { id } = command;
  const fleet = fleetWorkflowId(given.fleet);
  switch (command.kind) {
    case "cancel":
      return open.get(id)?.cancel();
    case "ask-terms":
      site.activity<SilenceTerms>(run, {
        queue: JOB_QUEUE,
        name: `terms-${id}`,
        startToCloseMs: 60_000,
        *body({ process }) {
          const found = yield* askFleet(site, process, {
            fleet,
            question: ({ ledger }) => silenceTermsOf(ledger.shape, given.cluster),
          });
          if (found.kind !== "answer") return FAILED;
          return { kind: "done", value: found.value ?? DEFAULT_TERMS };
        },
        onEnd: (outcome) => {
          if (outcome.kind === "done") answer({ kind: "terms", id, terms: outcome.value });
        },
      });
      return undefined;
    case "tell":
      open.set(
        id,
        site.activity<boolean>(run, {
          queue: JOB_QUEUE,
          name: `tell-${id}`,
          startToCloseMs: 60_000,
          *body({ process }) {
            const result = yield* site.tellFleet(process, fleet, command.entry);
            return result === undefined
              ? FAILED
              : { kind: "done", value: result.kind === "delivered" };
          },
          onEnd: (outcome) => {
            if (outcome.kind === "done") answer({ kind: "told", id, isDelivered: outcome.value });
          },
        }),
      );
      return undefined;
    case "report":
    case "keep-contact": {
      const { to, terms, isPatient } = command;
      const isReport = command.kind === "report";
      const common = {
        queue: to.agent.orderQueue,
        name: `${command.kind}-${id}`,
        maxAttempts: 1,
        ...(!isPatient && { scheduleToStartMs: terms.silenceMs }),
      };
      const activity = isReport
        ? site.activity<AgentReport>(run, {
            ...common,
            startToCloseMs: 30_000,
            body: (attempt) => reportOf(agents, attempt, { epoch: to.agent.epoch, terms }),
            onEnd: (outcome) => {
              if (outcome.kind === "done") answer({ kind: "reported", id, report: outcome.value });
              else if (outcome.kind !== "cancelled")
                answer({ kind: "report-failed", id, isTimeout: outcome.kind === "timed out" });
            },
          })
        : site.activity<"ended">(run, {
            ...common,
            startToCloseMs: UNLIMITED_MS,
            heartbeatMs: terms.silenceMs,
            body: (attempt) => keepContact(agents, attempt, { epoch: to.agent.epoch, terms }),
            onEnd: (outcome) => {
              if (outcome.kind === "cancelled") return;
              const how = outcome.kind === "done" ? "ended" : "silent";
              answer({ kind: "contact-over", id, how });
            },
          });
      open.set(id, activity);
      return undefined;
    }
  }
}

function sweep(
  {
    site,
    agents,
    given,
  }: { readonly site: Site; readonly agents: Agents; readonly given: SweepInput },
  command: SweepCommand,
  run: SweepRun,
): void {
  const answer = (event: SweepEvent): void => run.arrive({ kind: "event", event });
  const fleet = fleetWorkflowId(given.fleet);
  const { lease, jobId, token } = given;
  const short = { queue: JOB_QUEUE, name: `sweep-${lease}`, startToCloseMs: 60_000 };
  switch (command.kind) {
    case "find":
      return findHost(site, run, { fleet, host: command.host, answer });
    case "stop": {
      const { host, agent } = command;
      const reason = "its job is gone";
      const order = { jobId, host, leaseId: lease, token, isCheckpointFirst: false, reason };
      site.activity<StopReport>(run, {
        queue: agent.orderQueue,
        name: `sweep-${lease}-${host}`,
        startToCloseMs: 600_000,
        scheduleToStartMs: 30_000,
        maxAttempts: 2,
        body: (attempt) => stopOn(agents, attempt, order),
        onEnd: (outcome) => answer({ kind: "stopped", host, isConfirmed: outcome.kind === "done" }),
      });
      return undefined;
    }
    case "tell":
      site.activity<undefined>(run, {
        ...short,
        *body({ process }) {
          const entry = { kind: "vacated", lease, hosts: [command.host] } as const;
          const result = yield* site.tellFleet(process, fleet, entry);
          return result === undefined ? FAILED : { kind: "done", value: undefined };
        },
        onEnd: () => answer({ kind: "told", host: command.host }),
      });
      return undefined;
    case "check-lease":
      site.activity<boolean>(run, {
        ...short,
        *body({ process }) {
          const found = yield* askFleet(site, process, {
            fleet,
            question: ({ ledger }) => mayHaveLease(ledger, lease, site.server.clockMs()),
          });
          if (found.kind === "failed") return FAILED;
          return { kind: "done", value: found.kind === "none" || found.value };
        },
        onEnd: (outcome) =>
          answer({ kind: "lease-checked", isHeld: outcome.kind !== "done" || outcome.value }),
      });
      return undefined;
  }
}

function findHost(
  site: Site,
  run: SweepRun,
  {
    fleet,
    host,
    answer,
  }: {
    readonly fleet: string;
    readonly host: HostId;
    readonly answer: (event: SweepEvent) => void;
  },
): void {
  site.activity<AgentAddress | null>(run, {
    queue: JOB_QUEUE,
    name: `find-${host}`,
    startToCloseMs: 60_000,
    *body({ process }) {
      const found = yield* askFleet(site, process, {
        fleet,
        question: ({ ledger }) => ledger.hosts.get(host)?.agent ?? null,
      });
      if (found.kind === "failed") return FAILED;
      return { kind: "done", value: found.kind === "answer" ? found.value : null };
    },
    onEnd: (outcome) =>
      answer({ kind: "found", host, agent: outcome.kind === "done" ? outcome.value : null }),
  });
}
