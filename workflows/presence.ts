/**
 * @file The presence of one cluster: attends the agents of its hosts, and tells the fleet when one falls silent or answers.
 *
 * For each agent: `report` (what runs there; to the fleet as hello) → `attend`, one activity that heartbeats for as long as the
 * agent lives. Its timeout is silence: the fleet hears of it, and `report` is asked again without a limit of time, so that the
 * answer, whenever it comes, is a hello. The fleet hears transitions only, and nothing is polled: a cluster whose agents all
 * answer costs heartbeats and no workflow task. A newer agent of the same hosts takes the place of an older one.
 * History: about 20 events for an agent's coming, as many for a silence; continues as new by its own count of them.
 */

import {
  ActivityCancellationType,
  CancellationScope,
  condition,
  continueAsNew,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  setHandler,
  sleep,
  TimeoutFailure,
  ActivityFailure,
} from "@temporalio/workflow";
import type {
  AgentReport,
  PresenceActivities,
  PresenceTerms,
} from "../activities/agent-contract.ts";
import type { JobActivities } from "../activities/control-contract.ts";
import type { HostId } from "../domain/ids.ts";
import type { InboxEntry } from "../scheduling/ledger.ts";
import {
  fleetWorkflowId,
  goneSignal,
  hereSignal,
  reportAgainSignal,
  type PresenceInput,
  type PresentAgent,
  type SilenceTerms,
} from "./messages.ts";

const CONTINUE_AT_EVENTS = 2_000;
/** Continuing costs as much for each agent, so many agents need a longer history between. */
const CONTINUE_AT_EVENTS_PER_AGENT = 60;
const EVENTS_PER_REPORT = 14;
/** An agent that answers with an error (a full disk, say) is asked again. */
const ERROR_PAUSE_MS = 5_000;
const REPORT_TIMEOUT_MS = 30_000;
const NO_FLEET_PAUSE_MS = 5_000;
/** An agent may be attended for a year. */
const UNLIMITED_MS = 365 * 24 * 3_600_000;
/** A large hello goes in parts, each well below what an inbox takes; a host is whole in one of them. */
const RUNNING_PER_HELLO = 200;

const { silenceTerms } = proxyActivities<Pick<JobActivities, "silenceTerms">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "10s" },
});
/** No local activity: several at a time end in another order on replay (docs/decisions/0014). */
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

/** An agent while it is attended. */
interface Attendance extends PresentAgent {
  readonly scope: CancellationScope;
  isSilent: boolean;
}

export async function presence({ fleet, cluster, agents = [] }: PresenceInput): Promise<never> {
  const fleetId = fleetWorkflowId(fleet);
  const attended = new Map<string, Attendance>();
  const arrivals: PresentAgent[] = [...agents];
  let isTermsKnown = false;
  let terms: SilenceTerms | undefined;
  let isReportDue = false;
  let events = 0;
  /** Words to the fleet that are on their way. */
  let telling = 0;

  setHandler(hereSignal, (present) => {
    if (isPresentAgent(present)) arrivals.push(present);
  });
  setHandler(goneSignal, (farewell) => {
    events += 4;
    const epoch = (farewell as { epoch?: unknown } | undefined)?.epoch;
    const attendance = typeof epoch === "string" ? attended.get(epoch) : undefined;
    if (attendance !== undefined) void leave(attendance);
  });
  setHandler(reportAgainSignal, () => {
    isReportDue = true;
  });

  for (;;) {
    show();
    await condition(() => arrivals.length > 0 || isReportDue || mustContinue());
    if (mustContinue()) break;
    if (!isTermsKnown || isReportDue) {
      terms = await silenceTerms(fleetId, cluster);
      isTermsKnown = true;
      events += 6;
    }
    if (isReportDue) {
      isReportDue = false;
      // From the beginning for all: the terms may be new, and a fleet without a ledger needs every word.
      for (const { agent, hosts } of [...attended.values()]) arrivals.push({ agent, hosts });
      for (const attendance of [...attended.values()]) dismiss(attendance);
    }
    for (const present of arrivals.splice(0)) welcome(present);
  }
  await condition(() => telling === 0);
  const left = [...attended.values()].map(({ agent, hosts }) => ({ agent, hosts }));
  return continueAsNew<typeof presence>({ fleet, cluster, agents: [...left, ...arrivals] });

  function welcome({ agent, hosts }: PresentAgent): void {
    if (attended.has(agent.epoch)) return;
    for (const other of [...attended.values()]) {
      if (!other.hosts.some((host) => hosts.includes(host))) continue;
      // A late word of an agent that has a successor.
      if (other.agent.epoch > agent.epoch) return;
      dismiss(other);
    }
    const attendance: Attendance = {
      agent,
      hosts,
      scope: new CancellationScope(),
      isSilent: false,
    };
    attended.set(agent.epoch, attendance);
    attendance.scope.run(() => attend(attendance)).catch(() => undefined);
  }

  function dismiss(attendance: Attendance): void {
    attended.delete(attendance.agent.epoch);
    attendance.scope.cancel();
  }

  async function leave(attendance: Attendance): Promise<void> {
    const { agent, hosts } = attendance;
    if (attended.get(agent.epoch) === attendance) dismiss(attendance);
    show();
    await CancellationScope.nonCancellable(() =>
      tell({ kind: "agent-bye", hosts, epoch: agent.epoch }),
    );
  }

  async function attend(attendance: Attendance): Promise<void> {
    const { agent, hosts } = attendance;
    for (;;) {
      const agreed: PresenceTerms = { fleet, epoch: agent.epoch, ...(terms ?? NEVER) };
      const told = await askReport(attendance, agreed);
      if (told === undefined) continue;
      attendance.isSilent = false;
      show();
      for (const hello of hellosOf(told, agreed)) await tell(hello);
      const end = await agentOf(attendance, agreed)
        .attend(agreed)
        .catch((error: unknown) => {
          if (isCancellation(error)) throw error;
          return "silent" as const;
        });
      if (end === "ended") return await leave(attendance);
      attendance.isSilent = true;
      show();
      await tell({ kind: "silence", hosts, epoch: agent.epoch });
    }
  }

  /** What the agent says; undefined when it has to be asked again. */
  async function askReport(
    attendance: Attendance,
    agreed: PresenceTerms,
  ): Promise<AgentReport | undefined> {
    const { agent, hosts, isSilent } = attendance;
    events += EVENTS_PER_REPORT;
    try {
      return await agentOf(attendance, agreed).report(agreed);
    } catch (error) {
      if (isCancellation(error)) throw error;
      const isTimeout = error instanceof ActivityFailure && error.cause instanceof TimeoutFailure;
      if (isTimeout && !isSilent) {
        attendance.isSilent = true;
        show();
        await tell({ kind: "silence", hosts, epoch: agent.epoch });
      } else await sleep(ERROR_PAUSE_MS);
      return undefined;
    }
  }

  /** A silent agent may take its time; one that should be there may not. */
  function agentOf({ agent, hosts, isSilent }: Attendance, { silenceMs }: PresenceTerms) {
    const limit = isSilent ? {} : { scheduleToStartTimeout: silenceMs };
    const common = {
      taskQueue: agent.orderQueue,
      cancellationType: ActivityCancellationType.TRY_CANCEL,
      retry: { maximumAttempts: 1 },
      ...limit,
    };
    const { report } = proxyActivities<Pick<PresenceActivities, "report">>({
      ...common,
      startToCloseTimeout: REPORT_TIMEOUT_MS,
      summary: `what runs on ${nameOf(hosts)}`,
    });
    const { attend: attendAgent } = proxyActivities<Pick<PresenceActivities, "attend">>({
      ...common,
      startToCloseTimeout: UNLIMITED_MS,
      heartbeatTimeout: silenceMs,
      summary: nameOf(hosts),
    });
    return { report, attend: attendAgent };
  }

  async function tell(entry: InboxEntry): Promise<void> {
    telling += 1;
    try {
      for (;;) {
        events += 6;
        const told = await tellFleet(fleetId, entry);
        if (told.kind !== "no-fleet") return;
        await sleep(NO_FLEET_PAUSE_MS);
      }
    } finally {
      telling -= 1;
    }
  }

  function mustContinue(): boolean {
    return events >= CONTINUE_AT_EVENTS + CONTINUE_AT_EVENTS_PER_AGENT * attended.size;
  }

  function show(): void {
    const all = [...attended.values()];
    const silent = all.filter(({ isSilent }) => isSilent);
    const names = silent.slice(0, 20).map(({ hosts }) => nameOf(hosts));
    setCurrentDetails(
      [
        `**${cluster}**: ${all.length - silent.length} of ${all.length} agents answer`,
        ...(names.length > 0 ? ["", `silent: ${names.join(", ")}`] : []),
      ].join("\n"),
    );
  }
}

/** Never used: terms are asked for before anybody is attended. */
const NEVER: SilenceTerms = { silenceMs: 90_000, fenceMs: 600_000, onSilence: "hold" };

function hellosOf(
  { agent, hosts, running, highestToken }: AgentReport,
  { onSilence, fenceMs }: PresenceTerms,
): readonly InboxEntry[] {
  const parts: { hosts: HostId[]; running: HelloRun[] }[] = [];
  for (const host of hosts) {
    const mine = running
      .filter((run) => run.host === host)
      .map(({ lease }) => ({ host, lease: lease.id, token: lease.token, fact: lease }));
    const last = parts.at(-1);
    if (last === undefined || last.running.length + mine.length > RUNNING_PER_HELLO)
      parts.push({ hosts: [host], running: mine });
    else {
      last.hosts.push(host);
      last.running.push(...mine);
    }
  }
  const terms = onSilence === "hold" ? {} : { fenceMs };
  return parts.map((part) => ({ kind: "agent-hello", ...part, agent, highestToken, terms }));
}

type HelloRun = Extract<InboxEntry, { kind: "agent-hello" }>["running"][number];

const nameOf = (hosts: readonly string[]): string =>
  hosts.length > 3
    ? `${hosts.slice(0, 3).join(", ")} and ${hosts.length - 3} more`
    : hosts.join(", ");

function isPresentAgent(value: unknown): value is PresentAgent {
  if (typeof value !== "object" || value === null || !("agent" in value) || !("hosts" in value))
    return false;
  const { agent, hosts } = value;
  if (typeof agent !== "object" || agent === null || !Array.isArray(hosts)) return false;
  const isText = (name: string): boolean =>
    typeof (agent as Record<string, unknown>)[name] === "string";
  return (
    hosts.length > 0 &&
    hosts.every((host) => typeof host === "string" && /^\S+\/\S+$/.test(host)) &&
    ["epoch", "runQueue", "orderQueue", "address"].every(isText)
  );
}
