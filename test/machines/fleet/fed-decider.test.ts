/** @file The law of a decider that keeps a fleet's ledger: whatever fails, a plan is that of the fleet's ledger, or the answer is `stale`. */

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Tick } from "../../../machines/machine.ts";
import type { FleetCommand, FleetEvent } from "../../../machines/fleet/events.ts";
import { openChain } from "../../../machines/fleet/feed.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import type { FleetState } from "../../../machines/fleet/state.ts";
import type { Decision } from "../../../protocol/control-contract.ts";
import type { FleetInput } from "../../../protocol/fleet.ts";
import { decide, decideBaseline } from "../../../scheduling/cycle/decide.ts";
import { openFollower, type Follower } from "../../../scheduling/cycle/ledger-follower.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import { OLDEST_RULES, type Ledger } from "../../../scheduling/ledger/ledger.ts";
import { named } from "../../../activities/decide-messages.ts";
import type { Plan } from "../../../domain/lease/plan.ts";
import { ask, end, fleetShape, host, readyLedger } from "../../scheduling/builders.ts";
import { caseCount } from "../../support/case-count.ts";

const SHAPE = fleetShape([{ hosts: [{}, {}] }]);
const FLEETS = ["eu", "us"] as const;
const WORKERS = 2;

type Action =
  | { readonly do: "ask" | "end"; readonly job: number; readonly gpus: number }
  | { readonly do: "drain" | "pass" | "continue" }
  /** The fleet's tasks go to another worker, with deciders of its own. */
  | { readonly do: "move" }
  | { readonly do: "crash" }
  /** So many events back: the task was lost after its decision, and other events come in its place; or the run was reset. */
  | { readonly do: "lose" | "reset"; readonly events: number };

const actions: fc.Arbitrary<Action> = fc.oneof(
  {
    weight: 14,
    arbitrary: fc.record({
      do: fc.constantFrom("ask" as const, "end" as const),
      job: fc.nat(8),
      gpus: fc.integer({ min: 1, max: 9 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constantFrom("drain" as const, "pass" as const) }) },
  { weight: 1, arbitrary: fc.constant({ do: "continue" as const }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constantFrom("move" as const, "crash" as const) }) },
  {
    weight: 2,
    arbitrary: fc.record({
      do: fc.constantFrom("lose" as const, "reset" as const),
      events: fc.nat(12),
    }),
  },
);

/** The deciders of one worker, as `decide-thread.ts` keeps them: one that decides, and the baseline. */
class Deciders {
  readonly #followers = new Map<string, Follower>();
  readonly #plans: Map<string, Plan>;
  readonly #method: "decide" | "baseline";

  constructor(method: "decide" | "baseline", plans: Map<string, Plan>) {
    this.#method = method;
    this.#plans = plans;
  }

  answer(command: Extract<FleetCommand, { kind: "decide" | "decide-next" }>): Plan | "stale" {
    const { nowMs } = command;
    if (command.kind === "decide") {
      const ledger = unpackLedger(JSON.parse(JSON.stringify(command.ledger)) as never);
      const { fleet, hash } = command.keep ?? { fleet: "", hash: "" };
      const follower = openFollower(ledger, hash, { method: this.#method });
      this.#followers.set(fleet, follower);
      return follower.session.decide(nowMs);
    }
    const { feed } = JSON.parse(JSON.stringify(command)) as typeof command;
    const follower = this.#followers.get(feed.fleet);
    const planOf = (answer: string): Plan | undefined => this.#plans.get(answer);
    if (follower?.follow({ ...feed, planOf }) === "followed") return follower.session.decide(nowMs);
    this.#followers.delete(feed.fleet);
    return "stale";
  }
}

/** A fleet's run, its log, and the workers that serve it. */
class Run {
  nowMs = 10_000;
  state: FleetState;
  answers = { fed: 0, stale: 0, snapshots: 0, joint: 0 };
  #input: FleetInput;
  #run = 1;
  #log: (readonly [event: FleetEvent | Tick, nowMs: number])[] = [];
  #seqs = new Map<string, number>();
  readonly name: string;
  readonly #deciders: () => readonly Deciders[];
  readonly #plans: Map<string, Plan>;

  constructor(name: string, deciders: () => readonly Deciders[], plans: Map<string, Plan>) {
    this.name = name;
    this.#deciders = deciders;
    this.#plans = plans;
    // Of the two fleets one asks for proof of words.
    this.#input = {
      name,
      ledger: packLedger(readyLedger(SHAPE)),
      ...(name === "eu" && { areWordsSigned: true }),
    };
    this.state = this.#opened();
  }

  #opened(): FleetState {
    const runId = `${this.name} ${String(this.#run)}`;
    return openChain(openFleet(this.#input, 10_000, 10_000), this.#input, runId);
  }

  feed(event: FleetEvent | Tick): void {
    this.#log.push([event, this.nowMs]);
    const { state, commands } = fleetMachine.step(this.state, event, this.nowMs);
    this.state = state;
    for (const command of commands) this.#carryOut(command);
  }

  #carryOut(command: FleetCommand): void {
    if (command.kind === "decide" || command.kind === "decide-next") this.#decide(command);
    if (command.kind === "check") this.#check(command);
    if (command.kind === "deliver") {
      const accepted = command.post.grants.map(({ lease }) => lease.id);
      this.feed({ kind: "delivered", id: command.id, report: { accepted, gone: [] } });
    }
    if (command.kind === "audit")
      this.feed({ kind: "audited", id: command.id, report: { closed: [] } });
    if (command.kind === "finish-handlers") this.feed({ kind: "handlers-finished" });
    if (command.kind === "continue-as-new") {
      this.#input = JSON.parse(JSON.stringify(command.input)) as FleetInput;
      this.#begin();
    }
  }

  #decide(command: Extract<FleetCommand, { kind: "decide" | "decide-next" }>): void {
    const { ledger } = this.state;
    const fresh = unpackLedger(packLedger(ledger));
    const [plan, plain] = this.#deciders().map((each) => each.answer(command));
    if (command.kind === "decide") this.answers.snapshots += 1;
    else this.answers[plan === "stale" ? "stale" : "fed"] += 1;
    if (plain !== undefined && plain !== "stale")
      expect(plain).toEqual(decideBaseline(fresh, command.nowMs));
    const decision = this.#recorded(plan, () => fresh, command);
    const { id } = command;
    this.feed(
      decision.kind === "plan" ? { ...decision, kind: "decided", id } : { kind: "stale", id },
    );
  }

  /** All pass. What was ahead is asked with them, and comes to the same as a question that follows. */
  #check({ id, ahead }: Extract<FleetCommand, { kind: "check" }>): void {
    const checked = { kind: "checked", id, verdicts: { refused: [] } } as const;
    if (ahead === undefined) {
      this.feed(checked);
      return;
    }
    this.answers.joint += 1;
    const first = fleetMachine.step(this.state, checked, this.nowMs);
    const next = first.commands.at(-1);
    if (next?.kind !== "decide-next") throw new Error("another question was ahead");
    expect(next).toEqual({ kind: "decide-next", id: next.id, ...ahead });
    const [plan] = this.#deciders().map((each) => each.answer(next));
    const decision = this.#recorded(plan, () => unpackLedger(packLedger(first.state.ledger)), next);
    const second = fleetMachine.step(
      first.state,
      decision.kind === "plan"
        ? { ...decision, kind: "decided", id: next.id }
        : { kind: "stale", id: next.id },
      this.nowMs,
    );
    const joint = { ...checked, ahead: { hash: ahead.feed.hash, decision } };
    const both = {
      state: second.state,
      commands: [...first.commands.slice(0, -1), ...second.commands],
    };
    const late = { ...checked, ahead: { hash: "another", decision } };
    // Ten times as fast as `toEqual`.
    expect(isDeepStrictEqual(fleetMachine.step(this.state, joint, this.nowMs), both)).toBe(true);
    expect(isDeepStrictEqual(fleetMachine.step(this.state, late, this.nowMs), first)).toBe(true);
    this.feed(joint);
  }

  #recorded(
    plan: Plan | "stale" | undefined,
    ledger: () => Ledger,
    { nowMs }: { readonly nowMs: number },
  ): Decision {
    if (plan === undefined || plan === "stale") return { kind: "stale", reason: "new" };
    expect(plan).toEqual(decide(ledger(), nowMs));
    const { planText, answer } = named(plan);
    const recorded = JSON.parse(planText) as Plan;
    this.#plans.set(answer, recorded);
    return { kind: "plan", plan: recorded, answer };
  }

  #begin(): void {
    this.#run += 1;
    this.#log = [];
    this.state = this.#opened();
  }

  /** As after a replay of the first part of the history. */
  rewind(events: number, isReset: boolean): void {
    if (isReset) this.#run += 1;
    this.#log = this.#log.slice(0, Math.max(0, this.#log.length - events));
    this.state = this.#opened();
    const open = new Map<number, FleetCommand>();
    for (const [event, nowMs] of this.#log) {
      if ("id" in event) open.delete(event.id);
      const { state, commands } = fleetMachine.step(this.state, event, nowMs);
      this.state = state;
      for (const command of commands) if ("id" in command) open.set(command.id, command);
    }
    for (const command of open.values()) this.#carryOut(command);
    if (this.state.phase === "closing") this.feed({ kind: "handlers-finished" });
  }

  settle(): void {
    for (let turns = 0; turns < 5 && fleetMachine.dueAtMs(this.state) <= this.nowMs; turns += 1)
      this.feed({ kind: "tick" });
  }

  act(action: Action): void {
    this.nowMs += 700;
    if (action.do === "ask") {
      const job = `j${String(action.job)}`;
      const seq = (this.#seqs.get(job) ?? 0) + 1;
      this.#seqs.set(job, seq);
      const entry = ask({ job, seq, gpus: action.gpus, requestedAtMs: this.nowMs });
      this.feed({ kind: "inbox", batch: [entry] });
    }
    if (action.do === "end") {
      const job = `j${String(action.job)}`;
      this.feed({ kind: "inbox", batch: [end(job, { seq: this.#seqs.get(job) ?? 0 })] });
    }
    if (action.do === "drain")
      this.feed({ kind: "order", order: { kind: "drain", hosts: [host("c0/h1")], reason: "fan" } });
    if (action.do === "continue")
      this.feed({ kind: "order", order: { kind: "undrain", hosts: [host("c0/h1")] } });
    if (action.do === "lose" || action.do === "reset")
      this.rewind(action.events, action.do === "reset");
    this.settle();
  }
}

describe("a decider that is fed", () => {
  test("plans as on the whole ledger, or says that it is stale, whatever fails", () => {
    const seen = { fed: 0, stale: 0, snapshots: 0, joint: 0 };
    fc.assert(
      fc.property(
        fc.array(fc.tuple(fc.constantFrom(...FLEETS), actions), { minLength: 30, maxLength: 90 }),
        (steps) => {
          const plans = new Map<string, Plan>();
          const opened = (): readonly Deciders[] => [
            new Deciders("decide", plans),
            new Deciders("baseline", plans),
          ];
          const workers = Array.from({ length: WORKERS }, opened);
          let worker = 0;
          const serving = (): readonly Deciders[] => workers[worker] ?? [];
          const runs = new Map(FLEETS.map((name) => [name, new Run(name, serving, plans)]));
          for (const [name, action] of steps) {
            if (action.do === "move") worker = (worker + 1) % WORKERS;
            if (action.do === "crash") workers[worker] = opened();
            runs.get(name)?.act(action);
          }
          for (const { answers } of runs.values()) {
            seen.fed += answers.fed;
            seen.stale += answers.stale;
            seen.snapshots += answers.snapshots;
            seen.joint += answers.joint;
          }
        },
      ),
      { numRuns: caseCount(60) },
    );
    expect(seen.stale).toBeGreaterThan(0);
    expect(seen.joint).toBeGreaterThan(0);
    expect(seen.fed + seen.joint).toBeGreaterThan(seen.snapshots);
  });

  test("a fleet of version 1 sends its whole ledger, as ever", () => {
    const ledger = packLedger({ ...readyLedger(SHAPE), applyVersion: OLDEST_RULES });
    const input = { name: "eu", ledger };
    const state = openChain(openFleet(input, 0, 0), input, "run");
    expect(state.followed).toBeUndefined();
  });
});
