/**
 * @file A fleet's machine that is driven in process as its worker drives it: commands are carried out through payloads and decider threads.
 *
 * Payloads pass the converter and the codec of a worker in both directions. Deliveries, audits and estimates are answered at once and cost
 * nothing but the machine's own part; their activities are not measured.
 */

import {
  decodeArrayFromPayloads,
  encodeToPayloads,
} from "@temporalio/common/lib/internal-non-workflow/index.js";
import type { LoadedDataConverter } from "@temporalio/common";
import type { Decider } from "../../activities/decider.ts";
import type { Plan } from "../../domain/lease/plan.ts";
import type { FleetCommand, FleetEvent } from "../../machines/fleet/events.ts";
import { openChain } from "../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../machines/fleet/fleet.ts";
import type { FleetState } from "../../machines/fleet/state.ts";
import { fleetSummary } from "../../machines/fleet/view.ts";
import type { Tick } from "../../machines/machine.ts";
import type { DecideQuestion, Decision } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import type { LedgerEvent } from "../../scheduling/ledger/ledger.ts";

export interface DrivenPorts {
  readonly converter: LoadedDataConverter;
  readonly decider: Decider;
  /** Every event that the ledger folds. */
  readonly onEvent: (event: LedgerEvent) => void;
}

export interface DrivenFleet {
  readonly state: () => FleetState;
  /** Runs so far, by continue-as-new. */
  readonly runs: () => number;
  /** Plans by the method that made them, and the answers `stale`. */
  readonly answers: Readonly<Record<"decide" | "baseline" | "none" | "stale", number>>;
  /** Feeds a batch of inbox entries, and goes on until the machine rests. */
  readonly cycle: (entries: readonly unknown[], nowMs: number) => Promise<void>;
  /** Ends the run and begins the next one, up to its first plan. */
  readonly continueAsNew: (nowMs: number) => Promise<void>;
}

type Asked = Extract<FleetCommand, { kind: "decide" | "decide-next" }>;

export function driveFleet(input: FleetInput, nowMs: number, ports: DrivenPorts): DrivenFleet {
  const { converter, decider, onEvent } = ports;
  const answers = { decide: 0, baseline: 0, none: 0, stale: 0 };
  let run = 0;
  let clockMs = nowMs;
  let state = openRun(input);
  return { state: () => state, runs: () => run, answers, cycle, continueAsNew };

  function openRun(from: FleetInput): FleetState {
    run += 1;
    return openChain(openFleet(from, clockMs, clockMs), from, `run-${String(run)}`);
  }

  async function cycle(entries: readonly unknown[], atMs: number): Promise<void> {
    clockMs = atMs;
    const [batch] = await throughPayload([entries]);
    await feed({ kind: "inbox", batch });
    await settle();
  }

  async function settle(): Promise<void> {
    for (let turns = 0; turns < 10 && fleetMachine.dueAtMs(state) <= clockMs; turns += 1)
      await feed({ kind: "tick" });
    fleetSummary(state);
  }

  async function feed(event: FleetEvent | Tick): Promise<void> {
    const step = fleetMachine.step(state, event, clockMs);
    state = step.state;
    for (const command of step.commands) await carryOut(command);
  }

  async function carryOut(command: FleetCommand): Promise<void> {
    switch (command.kind) {
      case "record":
        onEvent(command.event);
        return;
      case "decide":
      case "decide-next":
        await feed(await decided(command));
        return;
      case "deliver": {
        const [post] = await throughPayload([command.post]);
        const { grants } = post as typeof command.post;
        const accepted = grants.map(({ lease }) => lease.id);
        await feed({ kind: "delivered", id: command.id, report: { accepted, gone: [] } });
        return;
      }
      case "finish-handlers":
        await feed({ kind: "handlers-finished" });
        return;
      case "continue-as-new": {
        const [next] = await throughPayload([command.input]);
        state = openRun(next as FleetInput);
        return;
      }
      default:
        await feed({ kind: "failed", id: command.id });
    }
  }

  async function decided(command: Asked): Promise<FleetEvent> {
    const { id } = command;
    const decision = await ask(questionOf(command));
    answers[decision.kind === "stale" ? "stale" : decision.plan.stats.method] += 1;
    return decision.kind === "stale" ? { kind: "stale", id } : { ...decision, kind: "decided", id };
  }

  async function ask(question: DecideQuestion): Promise<Decision> {
    const [sent] = await throughPayload([question]);
    const [answer] = await throughPayload([await decider.decideNext(sent as DecideQuestion)]);
    return answer as Decision; // the trip through the payload keeps the type
  }

  async function continueAsNew(atMs: number): Promise<void> {
    clockMs = atMs;
    const before = run;
    // As after an operator's order, which ends the run at its next turn.
    state = { ...state, isChangedByHand: true, isTurnDue: true };
    state = { ...state, cycle: { ...state.cycle, needsDecision: true } };
    for (let turns = 0; turns < 10 && run === before; turns += 1) await feed({ kind: "tick" });
    const plans = answers.decide;
    for (let turns = 0; turns < 10 && answers.decide === plans; turns += 1)
      await feed({ kind: "tick" });
  }

  async function throughPayload(values: readonly unknown[]): Promise<readonly unknown[]> {
    return decodeArrayFromPayloads(converter, await encodeToPayloads(converter, ...values));
  }
}

const questionOf = (command: Asked): DecideQuestion =>
  command.kind === "decide-next"
    ? { kind: "feed", feed: command.feed, nowMs: command.nowMs }
    : {
        kind: "snapshot",
        snapshot: { fleet: "large", hash: "", ...command.keep, ledger: command.ledger },
        nowMs: command.nowMs,
      };

/** As a fleet of version 1 asks. */
export async function askWithLedger(
  command: Pick<Extract<FleetCommand, { kind: "decide" }>, "ledger" | "nowMs">,
  { converter, decider }: Pick<DrivenPorts, "converter" | "decider">,
): Promise<Plan> {
  const sent = await encodeToPayloads(converter, command.ledger, command.nowMs);
  const [ledger] = await decodeArrayFromPayloads(converter, sent);
  const plan = await decider.decide(ledger as typeof command.ledger, command.nowMs);
  const [answer] = await decodeArrayFromPayloads(
    converter,
    await encodeToPayloads(converter, plan),
  );
  return answer as Plan; // the trip through the payload keeps the type
}
