/**
 * @file The workflow of a fleet: feeds its machine (`machines/fleet/fleet.ts`) and carries out the machine's commands.
 *
 * Handlers only feed events or read the state; they never throw and never await. The decisions and the checks of who speaks are the only local
 * activities: their answers are in history, their arguments are not. While one is open the machine gives no other command (docs/decisions/0014).
 */

import {
  allHandlersFinished,
  ApplicationFailure,
  condition,
  defineUpdate,
  makeContinueAsNewFunc,
  proxyActivities,
  proxyLocalActivities,
  setCurrentDetails,
  setHandler,
  upsertMemo,
  workflowInfo,
} from "@temporalio/workflow";
import { parseHostId } from "../../domain/values/ids.ts";
import { jointEvent, type FleetCommand, type FleetEvent } from "../../machines/fleet/events.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import { openChain } from "../../machines/fleet/feed.ts";
import { isRead } from "../../machines/fleet/inbox.ts";
import { intakeView } from "../../machines/fleet/intake-view.ts";
import { linkEndsOf } from "../../machines/fleet/link-ends.ts";
import type { OrderRefusal } from "../../machines/fleet/orders.ts";
import { orderEvent, orderOutcome, refuseOrder } from "../../machines/fleet/signed-orders.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import {
  clusterDescription,
  explainJob,
  fleetSummary,
  mayHaveLease,
  othersWait,
  shapeOf,
  silenceTermsOf,
} from "../../machines/fleet/view.ts";
import type { DecideQuestion, FleetActivities } from "../../protocol/control-contract.ts";
import {
  clusterQuery,
  explainQuery,
  hasLeaseQuery,
  hostQuery,
  inboxSignal,
  intakeQuery,
  ledgerQuery,
  linkEndsQuery,
  ATTENDANTS_MEMO,
  ORDERS_MEMO,
  orderQuery,
  othersWaitQuery,
  shapeQuery,
  silenceTermsQuery,
  SIGNED_WORDS,
  WORDS_MEMO,
  FLEET_ORDERS,
  FLEET_TASK_TIMEOUT,
  type FleetInput,
  type Proven,
  type WordActivities,
} from "../../protocol/messages.ts";
import type { PackedLedger } from "../../domain/lease/packed-ledger.ts";
import { packLedger } from "../../scheduling/ledger/codec.ts";
import { askedProof, type Ledger } from "../../scheduling/ledger/ledger.ts";
import { arrivedOrder } from "../runtime/arrived-orders.ts";
import { drive, type Drive } from "../runtime/drive.ts";
import { recorder } from "../runtime/fleet-recorder.ts";
import { onArrival, onUnknownSignal } from "../runtime/signal-intake.ts";

const { decide, decideNext } = proxyLocalActivities<Pick<FleetActivities, "decide" | "decideNext">>(
  {
    summary: "one scheduling cycle",
    startToCloseTimeout: "5s",
    retry: { initialInterval: "100ms", maximumInterval: "5s" },
  },
);

const { checkAndDecide } = proxyLocalActivities<Pick<FleetActivities, "checkAndDecide">>({
  summary: "proof of who speaks, and one scheduling cycle",
  startToCloseTimeout: "10s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});

const { checkWords } = proxyLocalActivities<WordActivities>({
  summary: "proof of who speaks",
  startToCloseTimeout: "10s",
  retry: { initialInterval: "100ms", maximumInterval: "5s" },
});

const { deliver } = proxyActivities<Pick<FleetActivities, "deliver">>({
  summary: "grants, orders and reasons, to their jobs",
  startToCloseTimeout: "30s",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

const { audit, recover } = proxyActivities<Pick<FleetActivities, "audit" | "recover">>({
  summary: "whether the holders of leases live",
  startToCloseTimeout: "5m",
  retry: { initialInterval: "200ms", maximumInterval: "10s" },
});

const { repair } = proxyActivities<Pick<FleetActivities, "repair">>({
  summary: "a repair that an operator has asked for",
  startToCloseTimeout: "5m",
  // An operator asks again.
  retry: { initialInterval: "200ms", maximumInterval: "10s", maximumAttempts: 3 },
});

const { estimateStarts } = proxyActivities<Pick<FleetActivities, "estimateStarts">>({
  summary: "when waiting jobs will start",
  startToCloseTimeout: "3m",
  heartbeatTimeout: "30s",
  // A lost estimate is not missed: the next one comes by its clock.
  retry: { maximumAttempts: 1 },
});

export async function fleet(input: FleetInput): Promise<never> {
  const record = recorder();
  record?.began(input.ledger);
  // A fleet that goes to newer rules; jobs begin to ask for proof once they see it.
  const asked = askedProof(input.ledger, input.areWordsSigned === true);
  if (asked.areWordsSigned && workflowInfo().memo?.[WORDS_MEMO] !== SIGNED_WORDS)
    upsertMemo({ [WORDS_MEMO]: SIGNED_WORDS });
  if (asked.areOrdersSigned && workflowInfo().memo?.[ORDERS_MEMO] !== SIGNED_WORDS)
    upsertMemo({ [ORDERS_MEMO]: SIGNED_WORDS });
  if (asked.areAttendantsSigned && workflowInfo().memo?.[ATTENDANTS_MEMO] !== SIGNED_WORDS)
    upsertMemo({ [ATTENDANTS_MEMO]: SIGNED_WORDS });
  const { state, feed, until } = drive<FleetState, FleetEvent, FleetCommand>({
    machine: fleetMachine,
    state: openChain(
      openFleet(input, workflowInfo().startTime.getTime(), Date.now()),
      input,
      workflowInfo().runId,
    ),
    carryOut: (command) =>
      command.kind === "record" ? void record?.folded(command.event) : carryOut(command),
    show: (resting) => setCurrentDetails(fleetSummary(resting)),
  });
  onArrival(inboxSignal, ({ read, ...arrived }) => {
    const batch = isRead(state().ledger, arrived.bytes) ? read() : undefined;
    feed({ kind: "inbox", batch, ...arrived });
  });
  onUnknownSignal(({ signal, bytes, sideBytes = 0, sender }) =>
    feed({ kind: "unknown-signal", signal, bytes, sideBytes, sender }),
  );
  acceptOrders({ state, feed });
  answerQueries(state);
  // Never so: the run ends when it continues as new, which the SDK does by an error.
  await until(() => false);
  throw new Error("a fleet's run has ended without its next one");
}

/** Starts what the machine asks for, and resolves with the answer. */
function carryOut(
  command: Exclude<FleetCommand, { readonly kind: "record" }>,
): Promise<FleetEvent> {
  switch (command.kind) {
    case "check":
      return checkWith(command);
    case "decide":
    case "decide-next":
      return askDecider(command);
    case "deliver":
      return answerOf(command, deliver(command.post), (report) => {
        return { kind: "delivered", id: command.id, report };
      });
    case "audit":
      return answerOf(command, audit(command.order), (report) => {
        return { kind: "audited", id: command.id, report };
      });
    case "recover":
      return answerOf(command, recover(command.order), () => {
        return { kind: "recovered", id: command.id };
      });
    case "estimate-starts":
      return answerOf(command, estimateStarts(command.order), (estimates) => {
        return { kind: "estimated", id: command.id, estimates };
      });
    case "repair":
      return answerOf(command, repair(command.order), (report) => {
        return { kind: "repaired", id: command.id, report };
      });
    case "finish-handlers":
      return condition(allHandlersFinished).then(() => ({ kind: "handlers-finished" }));
    case "continue-as-new":
      // Also for fleets that were begun with a shorter one.
      return makeContinueAsNewFunc<typeof fleet>({ workflowTaskTimeout: FLEET_TASK_TIMEOUT })(
        command.input,
      );
  }
}

function checkWith({
  id,
  list,
  values,
  ahead,
}: Extract<FleetCommand, { readonly kind: "check" }>): Promise<FleetEvent> {
  if (ahead === undefined)
    return checkWords(list, values).then((verdicts) => ({ kind: "checked", id, verdicts }));
  return checkAndDecide(list, values, ahead).then((answer) => jointEvent(id, ahead, answer));
}

/** From rules of version 2 on the decider keeps the ledger, and is asked with it or with what has happened since. */
function askDecider(
  command: Extract<FleetCommand, { readonly kind: "decide" | "decide-next" }>,
): Promise<FleetEvent> {
  const { id, nowMs } = command;
  const askNext = async (question: DecideQuestion): Promise<FleetEvent> => {
    const decision = await decideNext(question);
    return decision.kind === "plan" ? { ...decision, kind: "decided", id } : { kind: "stale", id };
  };
  if (command.kind === "decide-next") return askNext({ kind: "feed", feed: command.feed, nowMs });
  const { ledger, keep } = command;
  return keep === undefined
    ? decide(ledger, nowMs).then((plan) => ({ kind: "decided", id, plan }))
    : askNext({ kind: "snapshot", snapshot: { ...keep, ledger }, nowMs });
}

/** The failure itself is in the history, for people to read. */
const answerOf = <Answer>(
  { id }: { readonly id: number },
  activity: Promise<Answer>,
  eventOf: (answer: Answer) => FleetEvent,
): Promise<FleetEvent> => activity.then(eventOf, () => ({ kind: "failed", id }));

function acceptOrders({
  state,
  feed,
}: Pick<Drive<FleetState, FleetEvent>, "state" | "feed">): void {
  for (const [name, update] of ORDER_UPDATES)
    setHandler(
      update,
      (argument, proof) => {
        const event = orderEvent(state(), { name, argument, ...arrivedOrder(proof) });
        feed(event);
        if (event.kind !== "order") return null;
        return "hosts" in event.order ? event.order.hosts : undefined;
      },
      {
        validator: (argument: unknown, _proof?: string) =>
          refuse(refuseOrder(state(), name, argument)),
      },
    );
}

/** The argument's type is a promise: each validator checks what it reads. */
const ORDER_UPDATES = FLEET_ORDERS.map(
  (name) => [name, defineUpdate<unknown, Proven<unknown>>(name)] as const,
);

function refuse(refusal: OrderRefusal | undefined): void {
  if (refusal !== undefined) throw ApplicationFailure.nonRetryable(refusal.message, refusal.code);
}

function answerQueries(state: () => FleetState): void {
  const ledger = () => state().ledger;
  // Packing a large ledger takes a tenth of a second, and many may ask between two changes.
  let packed: { readonly of: Ledger; readonly ledger: PackedLedger } | undefined;
  setHandler(orderQuery, (id) => orderOutcome(state(), id));
  setHandler(ledgerQuery, () => {
    if (packed?.of !== ledger()) packed = { of: ledger(), ledger: packLedger(ledger()) };
    return packed.ledger;
  });
  setHandler(hostQuery, (host) => ledger().hosts.get(parseHostId(host))?.agent ?? null);
  setHandler(intakeQuery, () => intakeView(ledger()));
  setHandler(explainQuery, (id) => explainJob(ledger(), id));
  setHandler(silenceTermsQuery, (cluster) => silenceTermsOf(ledger().shape, cluster));
  setHandler(clusterQuery, (cluster) => clusterDescription(ledger(), cluster));
  setHandler(shapeQuery, (names) => shapeOf(ledger().shape, Array.isArray(names) ? names : []));
  setHandler(linkEndsQuery, () => linkEndsOf(ledger()));
  setHandler(othersWaitQuery, (id) => othersWait(ledger(), id));
  setHandler(hasLeaseQuery, (lease) => mayHaveLease(ledger(), lease, Date.now()));
}
