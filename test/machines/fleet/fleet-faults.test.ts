/** @file Laws of the fleet's machine under any order of requests, ends, orders, answers, lost activities, late clocks and continued runs. */

import fc from "fast-check";
import { expect, it } from "vitest";
import { named } from "../../../activities/decide-messages.ts";
import { openChain } from "../../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import { isEmpty } from "../../../machines/fleet/inbox.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { Decision } from "../../../protocol/control-contract.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import { isAnyWaiting } from "../../../machines/fleet/words.ts";
import { isDue, type Tick } from "../../../machines/machine.ts";
import { hostId, type LeaseId } from "../../../domain/values/ids.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import { checkLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Ledger } from "../../../scheduling/ledger/ledger.ts";
import { ask, end, fleetShape, readyLedger } from "../../scheduling/builders.ts";
import { caseCount } from "../../support/case-count.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const JOBS = ["a", "b", "c", "d"];
const HOST = hostId("c0", "h1");

const action = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("ask" as const),
      job: fc.nat(3),
      gpus: fc.integer({ min: 1, max: 12 }),
    }),
  },
  { weight: 3, arbitrary: fc.record({ do: fc.constant("end" as const), job: fc.nat(3) }) },
  { weight: 6, arbitrary: fc.record({ do: fc.constant("answer" as const), at: fc.nat(9) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("fail" as const), at: fc.nat(9) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("order" as const),
      kind: fc.constantFrom("drain" as const, "undrain" as const),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("stale" as const),
      id: fc.integer({ min: 1, max: 40 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constant("wait" as const),
      lateMs: fc.constantFrom(0, 0, 10, 20_000),
    }),
  },
);
type Action = typeof action extends fc.Arbitrary<infer Value> ? Value : never;

/** Plays one fleet over as many runs as it continues into, and checks the laws at each step. */
class Played {
  nowMs = 0;
  state: FleetState;
  open: FleetCommand[] = [];
  aheadTurns = 0;
  readonly seqs = new Map<string, number>();
  readonly granted = new Set<LeaseId>();
  #ids = new Set<number>();

  /** `areWordsSigned`: whether the fleet asks for proof of who speaks. */
  constructor(areWordsSigned: boolean) {
    const ledger = packLedger(readyLedger(SHAPE));
    this.state = this.#opened({ name: "eu", ledger, ...(areWordsSigned && { areWordsSigned }) });
  }

  #opened(input: FleetInput): FleetState {
    return openChain(openFleet(input, this.nowMs, this.nowMs), input, "run");
  }

  feed(event: FleetEvent | Tick): void {
    const { phase, cycle, ledger, words } = this.state;
    if (event.kind === "decided" || event.kind === "checked") this.#checkLateEnd(event);
    if (event.kind === "checked") this.#checkAhead(event);
    const { state, commands } = fleetMachine.step(this.state, event, this.nowMs);
    this.state = state;
    if (phase === "over") expect(commands).toEqual([]);
    const isInTurn = cycle.underway !== undefined || words?.question !== undefined;
    if (isInTurn && !["decided", "checked", "stale"].includes(event.kind)) {
      expect(state.ledger).toBe(ledger);
      expect(commands).toEqual([]);
    }
    for (const command of commands) this.#take(command);
    expect(checkLedger(state.ledger)).toEqual([]);
  }

  /** The end of a plan, or of a check, may come with a later time live than on replay, if nothing else came meanwhile: both go on in one way. */
  #checkLateEnd(event: FleetEvent): void {
    const { deferred, inbox, words } = this.state;
    if (deferred !== undefined || !isEmpty(inbox) || words?.waiting !== undefined) return;
    const [early, late] = [this.nowMs, this.nowMs + 3_600_000].map((nowMs) => {
      const { state, commands } = fleetMachine.step(this.state, event, nowMs);
      return { state, commands, isDue: isDue(fleetMachine, state, nowMs) };
    });
    expect(late).toEqual(early);
  }

  /** A turn that was played before its words had passed ends as one that is played afterwards, whatever came meanwhile. */
  #checkAhead(event: FleetEvent): void {
    if (this.state.ahead === undefined) return;
    this.aheadTurns += 1;
    const played = fleetMachine.step({ ...this.state, ahead: undefined }, event, this.nowMs);
    expect(fleetMachine.step(this.state, event, this.nowMs)).toEqual(played);
  }

  #take(command: FleetCommand): void {
    if (command.kind === "record") return;
    if ("id" in command) {
      expect(this.#ids.has(command.id)).toBe(false);
      this.#ids.add(command.id);
    }
    if (command.kind === "deliver")
      for (const { lease } of command.post.grants) this.granted.add(lease.id);
    if (command.kind !== "continue-as-new") {
      this.open.push(command);
      this.#checkOpen();
      return;
    }
    // The activities of a run that has ended answer nobody.
    this.open = [];
    this.#ids = new Set();
    const input = JSON.parse(JSON.stringify(command.input)) as typeof command.input;
    const next = this.#opened(input);
    expect(next.ledger).toEqual(this.state.ledger);
    this.state = next;
  }

  #checkOpen(): void {
    const count = (kind: FleetCommand["kind"]): number =>
      this.open.filter((each) => each.kind === kind).length;
    expect(count("decide") + count("check")).toBeLessThanOrEqual(1);
    for (const kind of ["audit", "estimate-starts", "finish-handlers"] as const)
      expect(count(kind)).toBeLessThanOrEqual(1);
    expect(count("deliver")).toBeLessThanOrEqual(4);
    const posts = this.open.flatMap((each) => (each.kind === "deliver" ? [each.post] : []));
    const carried = posts.flatMap(({ grants }) => grants.map(({ lease }) => lease.id));
    expect(new Set(carried).size).toBe(carried.length);
  }

  /** Takes the turns that are due; a machine that is always due would never rest. */
  settle(): void {
    for (let turns = 0; fleetMachine.dueAtMs(this.state) <= this.nowMs; turns += 1) {
      expect(turns).toBeLessThan(5);
      this.feed({ kind: "tick" });
    }
  }

  answer(command: FleetCommand, isLost: boolean): void {
    this.open = this.open.filter((each) => each !== command);
    const event = answerTo(command, isLost, this);
    if (event !== undefined) this.feed(event);
  }

  act(action: Action): void {
    switch (action.do) {
      case "ask": {
        const job = JOBS[action.job] ?? "a";
        const seq = (this.seqs.get(job) ?? 0) + 1;
        this.seqs.set(job, seq);
        this.feed({
          kind: "inbox",
          batch: [ask({ job, seq, gpus: action.gpus, requestedAtMs: this.nowMs })],
        });
        break;
      }
      case "end":
        this.endJob(JOBS[action.job] ?? "a");
        break;
      case "answer":
      case "fail": {
        const command = this.open[action.at % Math.max(1, this.open.length)];
        if (command !== undefined) this.answer(command, action.do === "fail");
        break;
      }
      case "order":
        this.feed({
          kind: "order",
          order: {
            hosts: [HOST],
            ...(action.kind === "drain" ? { kind: "drain", reason: "fan" } : { kind: "undrain" }),
          },
        });
        break;
      case "stale":
        // An answer to a command that is open would be no stale one.
        if (!this.open.some((each) => "id" in each && each.id === action.id))
          this.feed({ kind: "failed", id: action.id });
        break;
      case "wait": {
        const dueAtMs = fleetMachine.dueAtMs(this.state);
        if (dueAtMs < Infinity) this.nowMs = Math.max(this.nowMs, dueAtMs) + action.lateMs;
      }
    }
    this.settle();
  }

  endJob(job: string): void {
    this.feed({ kind: "inbox", batch: [end(job, { seq: this.seqs.get(job) ?? 0 })] });
  }
}

/** Of a decider that keeps the ledger, or has lost it. */
function decisionOf(ledger: Ledger, nowMs: number, isLost: boolean): Decision {
  if (isLost) return { kind: "stale", reason: "new" };
  const plan = decide(unpackLedger(packLedger(ledger)), nowMs);
  return { kind: "plan", plan, answer: named(plan).answer };
}

function answerTo(
  command: FleetCommand,
  isLost: boolean,
  { nowMs, state }: Pick<Played, "nowMs" | "state">,
): FleetEvent | undefined {
  switch (command.kind) {
    case "check": {
      const { id, ahead } = command;
      const checked = { kind: "checked", id, verdicts: { refused: [] } } as const;
      if (ahead === undefined || state.ahead === undefined) return checked;
      const { ledger } = state.ahead.end.state;
      const decision = decisionOf(ledger, ahead.nowMs, isLost);
      return { ...checked, ahead: { hash: ahead.feed.hash, decision } };
    }
    case "decide": {
      const plan = decide(unpackLedger(command.ledger), command.nowMs);
      const { answer } = named(plan);
      return {
        kind: "decided",
        id: command.id,
        plan,
        ...(command.keep !== undefined && { answer }),
      };
    }
    // Deciders that may have kept another ledger: fed-decider.test.ts.
    case "decide-next": {
      const decision = decisionOf(state.ledger, command.nowMs, isLost);
      return decision.kind === "plan"
        ? { ...decision, kind: "decided", id: command.id }
        : { kind: "stale", id: command.id };
    }
    case "finish-handlers":
      return { kind: "handlers-finished" };
    case "deliver": {
      if (isLost) return { kind: "failed", id: command.id };
      const { grants, evictions = [] } = command.post;
      const accepted = grants.map(({ lease }) => lease.id);
      const sent = evictions.map(({ order }) => order.lease);
      return {
        kind: "delivered",
        id: command.id,
        report: { accepted, gone: [], evictions: { sent, gone: [] } },
      };
    }
    case "audit":
      return isLost
        ? { kind: "failed", id: command.id }
        : { kind: "audited", id: command.id, report: { closed: [] } };
    case "repair":
      return isLost
        ? { kind: "failed", id: command.id }
        : { kind: "repaired", id: command.id, report: { denied: [], closed: [] } };
    case "recover":
      return { kind: isLost ? "failed" : "recovered", id: command.id };
    case "estimate-starts":
      return isLost
        ? { kind: "failed", id: command.id }
        : { kind: "estimated", id: command.id, estimates: { askedAtMs: nowMs, estimates: [] } };
    case "continue-as-new":
    case "begin-anew":
    case "record":
      return undefined;
  }
}

it("holds its laws, and when all jobs end and all activities answer, nothing is held and nothing waits", () => {
  let grantCount = 0;
  let aheadCount = 0;
  fc.assert(
    fc.property(
      fc.array(action, { minLength: 15, maxLength: 60 }),
      fc.boolean(),
      (actions, are) => {
        const fleet = new Played(are);
        fleet.settle();
        for (const each of actions) fleet.act(each);
        for (const job of JOBS) fleet.endJob(job);
        fleet.settle();
        for (let rounds = 0; fleet.open.length > 0 || fleet.state.isEnding; rounds += 1) {
          expect(rounds).toBeLessThan(60);
          fleet.act(fleet.open.length > 0 ? { do: "answer", at: 0 } : { do: "wait", lateMs: 0 });
        }
        const { ledger, inbox, deferred, words } = fleet.state;
        expect([ledger.leases.size, ledger.requests.size, ledger.outbox.size]).toEqual([0, 0, 0]);
        expect([isEmpty(inbox), deferred]).toEqual([true, undefined]);
        expect([isAnyWaiting(words), words?.question]).toEqual([false, undefined]);
        expect(words !== undefined).toBe(are);
        grantCount += fleet.granted.size;
        aheadCount += fleet.aheadTurns;
      },
    ),
    { numRuns: caseCount(150) },
  );
  expect(grantCount).toBeGreaterThan(100);
  expect(aheadCount).toBeGreaterThan(0);
});
