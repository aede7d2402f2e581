/**
 * @file The presence of one cluster: feeds `machines/hosts/presence.ts` and carries its commands out to agents and the fleet.
 *
 * Whether its words need proof, the fleet says with the terms, which every run asks for before it watches an agent. What came before is kept and looked
 * at again then.
 */

import {
  ActivityCancellationType,
  ActivityFailure,
  CancellationScope,
  continueAsNew,
  isCancellation,
  proxyActivities,
  setCurrentDetails,
  TimeoutFailure,
} from "@temporalio/workflow";
import { nameOf, presenceDetails } from "../../machines/hosts/presence-view.ts";
import type { PresenceCommand, PresenceEvent } from "../../machines/hosts/presence-state.ts";
import { openPresence, presenceMachine } from "../../machines/hosts/presence.ts";
import type { PresenceActivities } from "../../protocol/agent-contract.ts";
import type { JobActivities } from "../../protocol/control-contract.ts";
import {
  announceSignal,
  deregisterSignal,
  fleetWorkflowId,
  reportAgainSignal,
  type PresenceInput,
} from "../../protocol/messages.ts";
import { drive } from "../runtime/drive.ts";
import { answerAboutDisbelieved, BY_ACTIVITY } from "../runtime/proven-words.ts";
import { flawedInput, onHeavyWords, onSignal, onUnknownSignal } from "../runtime/signal-intake.ts";
import { keepHeard, settleHeard } from "../runtime/word-gate.ts";

const REPORT_TIMEOUT_MS = 30_000;
/** An agent may be watched for a year. */
const UNLIMITED_MS = 365 * 24 * 3_600_000;

const { silenceTerms } = proxyActivities<Pick<JobActivities, "silenceTerms">>({
  summary: "when a host counts as silent",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "500ms", maximumInterval: "10s" },
});
/** No local activity: several at a time end in another order on replay (docs/decisions/0014). */
const { tellFleet } = proxyActivities<Pick<JobActivities, "tellFleet">>({
  summary: "which hosts answer, for the fleet",
  startToCloseTimeout: "60s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

type AgentCommand = Extract<PresenceCommand, { kind: "report" | "keep-contact" }>;

export async function presence(input: PresenceInput): Promise<never> {
  const fleetId = fleetWorkflowId(input.fleet);
  keepHeard();
  const opened = openPresence(input);
  const scopes = new Map<number, CancellationScope>();
  const { feed, until } = drive(
    {
      machine: presenceMachine,
      state: opened.state,
      carryOut,
      show: (state) => setCurrentDetails(presenceDetails(state)),
      wordsBy: BY_ACTIVITY,
    },
    opened.commands,
  );
  onHeavyWords(() => feed({ kind: "unknown-signal" }));
  onSignal(announceSignal, (present) => feed({ kind: "announced", present }));
  onSignal(deregisterSignal, (farewell) =>
    feed({
      kind: "deregistered",
      epoch: (farewell as { readonly epoch?: unknown } | undefined)?.epoch,
    }),
  );
  onSignal(reportAgainSignal, () => feed({ kind: "report-again" }));
  onUnknownSignal(() => feed({ kind: "unknown-signal" }));
  answerAboutDisbelieved();
  const { next } = await until((state) => state.next !== undefined);
  return continueAsNew<typeof presence>(next ?? input);

  function carryOut(command: PresenceCommand): Promise<PresenceEvent | undefined> | undefined {
    const { kind, id } = command;
    switch (kind) {
      case "cancel":
        scopes.get(id)?.cancel();
        return undefined;
      case "ask-terms":
        return silenceTerms(fleetId, input.cluster, flawedInput()).then(
          ({ isProofAsked = false, ...terms }) => {
            settleHeard({ areDoubted: isProofAsked });
            return { kind: "terms", id, terms, isProofAsked };
          },
        );
      case "tell":
        return scoped(id, () => tellFleet(fleetId, command.entry)).then(
          (answer) => answer && { kind: "told", id, isDelivered: answer.kind !== "no-fleet" },
        );
      case "report":
        return scoped(id, () => report(command));
      case "keep-contact":
        return scoped(id, () => keepContact(command));
    }
  }

  /** Undefined when the machine has called it off. */
  async function scoped<Answer>(
    id: number,
    work: () => Promise<Answer>,
  ): Promise<Answer | undefined> {
    const scope = new CancellationScope();
    scopes.set(id, scope);
    try {
      return await scope.run(work);
    } catch (error) {
      if (isCancellation(error)) return undefined;
      throw error;
    } finally {
      scopes.delete(id);
    }
  }
}

function report({ id, to, terms, isPatient }: AgentCommand): Promise<PresenceEvent> {
  const activities = proxyActivities<Pick<PresenceActivities, "report">>({
    ...optionsFor(to.agent.orderQueue, isPatient ? undefined : terms.silenceMs),
    startToCloseTimeout: REPORT_TIMEOUT_MS,
    summary: `what runs on ${nameOf(to.hosts)}`,
  });
  return activities.report(terms).then(
    (answer): PresenceEvent => ({ kind: "reported", id, report: answer }),
    (error: unknown): PresenceEvent => {
      if (isCancellation(error)) throw error;
      const isTimeout = error instanceof ActivityFailure && error.cause instanceof TimeoutFailure;
      return { kind: "report-failed", id, isTimeout };
    },
  );
}

function keepContact({ id, to, terms, isPatient }: AgentCommand): Promise<PresenceEvent> {
  const activities = proxyActivities<Pick<PresenceActivities, "keepContact">>({
    ...optionsFor(to.agent.orderQueue, isPatient ? undefined : terms.silenceMs),
    startToCloseTimeout: UNLIMITED_MS,
    heartbeatTimeout: terms.silenceMs,
    summary: nameOf(to.hosts),
  });
  return activities.keepContact(terms).then(
    (how): PresenceEvent => ({
      kind: "contact-over",
      id,
      how: how === "ended" ? "ended" : "silent",
    }),
    (error: unknown): PresenceEvent => {
      if (isCancellation(error)) throw error;
      return { kind: "contact-over", id, how: "silent" };
    },
  );
}

const optionsFor = (taskQueue: string, pickupMs: number | undefined) => ({
  taskQueue,
  cancellationType: ActivityCancellationType.TRY_CANCEL,
  retry: { maximumAttempts: 1 },
  ...(pickupMs !== undefined && { scheduleToStartTimeout: pickupMs }),
});
