import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { hostId, leaseId, token } from "../../../domain/values/ids.ts";
import type { PresenceCommand, PresenceEvent } from "../../../machines/hosts/presence-state.ts";
import { openPresence, presenceMachine } from "../../../machines/hosts/presence.ts";
import { presenceDetails } from "../../../machines/hosts/presence-view.ts";
import type { AgentReport } from "../../../protocol/agent-contract.ts";
import type { PresentAgent, SilenceTerms } from "../../../protocol/fleet.ts";
import { play } from "../harness.ts";

const TERMS: SilenceTerms = { silenceMs: 60_000, fenceMs: 600_000, onSilence: "fence" };

const agentOf = (epoch: string, ...hosts: readonly string[]): PresentAgent => ({
  agent: { epoch, runQueue: `run.${epoch}`, orderQueue: `order.${epoch}`, address: "10.0.0.1" },
  hosts: hosts.map((host) => hostId("eu", host)),
});

const reportOf = ({ agent, hosts }: PresentAgent): AgentReport => ({
  agent,
  hosts,
  running: [],
  highestToken: 7,
});

const opened = (agents: readonly PresentAgent[] = []) =>
  play(presenceMachine, openPresence({ fleet: "f", cluster: "eu", agents }));

/** Announced, reported, told: contact is kept. */
function inContact(present: PresentAgent) {
  const played = opened();
  played.feed({ kind: "announced", present });
  played.feed({ kind: "terms", id: played.take("ask-terms").id, terms: TERMS });
  played.feed({ kind: "reported", id: played.take("report").id, report: reportOf(present) });
  played.feed({ kind: "told", id: played.take("tell").id, isDelivered: true });
  return { ...played, contact: played.take("keep-contact") };
}

/** A word without its date. */
function undated(entry: object): object {
  const { toldAtMs: _date, ...rest } = entry as { readonly toldAtMs?: number };
  return rest;
}

const dateOf = (entry: object): number => ("toldAtMs" in entry ? Number(entry.toldAtMs) : 0);

describe("the presence of a cluster", () => {
  it("takes no more agents than it may have activities; one that is silent makes room for one that arrives", () => {
    const played = inContact(agentOf("real", "a"));
    for (let forged = 0; forged < 2_500; forged += 1)
      played.feed({ kind: "announced", present: agentOf(`f${forged}`, `f${forged}`) });
    expect(played.state().agents.length).toBe(1_900);
    played.feed({ kind: "contact-over", id: played.contact.id, how: "silent" });
    played.feed({ kind: "announced", present: agentOf("new", "new") });
    const epochs = played.state().agents.map(({ agent }) => agent.epoch);
    expect([epochs.length, epochs.includes("real"), epochs.includes("new")]).toEqual([
      1_900,
      false,
      true,
    ]);
  });

  it("keeps no announcements that the next run could not begin with", () => {
    const played = opened();
    const hosts = Array.from({ length: 10_000 }, (_, index) => `h${index}`);
    for (let forged = 0; forged < 100; forged += 1)
      played.feed({ kind: "announced", present: agentOf(`f${forged}`, ...hosts) });
    expect(JSON.stringify(played.state().arrivals).length).toBeLessThan(1_200_000);
  });

  it("asks for the terms once, an arriving agent for a report, tells the fleet and keeps contact", () => {
    const present = agentOf("1", "a", "b");
    const { contact, open, state } = inContact(present);
    expect(contact).toMatchObject({
      to: present,
      isPatient: false,
      terms: { epoch: "1", ...TERMS },
    });
    expect(open).toEqual([]);
    expect(presenceDetails(state())).toBe("**eu**: 1 of 1 agents answer");
  });

  it("begins its next run, with its agents, before junk has used up the signals of this one", () => {
    const present = agentOf("1", "a");
    const { feed, state } = inContact(present);
    for (let at = 0; at < 999; at += 1)
      feed(
        at % 2 === 0 ? { kind: "unknown-signal" } : { kind: "announced", present: { junk: at } },
      );
    expect(state().next).toBeUndefined();
    feed({ kind: "unknown-signal" });
    expect(state().next).toMatchObject({ agents: [present] });
  });

  it("takes along who is announced once its next run is settled, where it knows that this is proven", () => {
    const present = agentOf("1", "a");
    const { feed, state } = inContact(present);
    for (let at = 0; at < 1_000; at += 1) feed({ kind: "unknown-signal" });
    expect(state().next).toMatchObject({ agents: [present] });
    const late = agentOf("2", "b");
    feed({ kind: "announced", present: { junk: 1 } });
    feed({ kind: "announced", present: late });
    expect(state().next?.agents).toEqual([present, late]);
    const doubtful = opened();
    for (let at = 0; at < 1_000; at += 1) doubtful.feed({ kind: "unknown-signal" });
    doubtful.feed({ kind: "announced", present: late });
    expect(doubtful.state().next?.agents).toEqual([]);
  });

  it("hands no arrival to its next run before it knows whether its fleet asks for proof, however much junk comes", () => {
    for (const isProofAsked of [true, false]) {
      const played = opened([agentOf("1", "a")]);
      const { id } = played.take("ask-terms");
      played.feed({ kind: "announced", present: agentOf("2", "b") });
      for (let at = 0; at < 2_000; at += 1) played.feed({ kind: "unknown-signal" });
      expect(played.state().next).toBeUndefined();
      played.feed({ kind: "terms", id, terms: TERMS, isProofAsked });
      const carried = played.state().next?.agents?.map(({ agent }) => agent.epoch);
      expect(carried).toEqual(isProofAsked ? ["1"] : ["1", "2"]);
    }
    // Nobody has announced himself: a flood of junk alone does not use up the run's signals.
    const idle = opened();
    for (let at = 0; at < 1_000; at += 1) idle.feed({ kind: "unknown-signal" });
    expect(idle.state().next).toMatchObject({ agents: [] });
  });

  it("tells a silence, and asks for the next report without a limit of time", () => {
    const played = inContact(agentOf("1", "a"));
    played.feed({ kind: "contact-over", id: played.contact.id, how: "silent" });
    const told = played.take("tell");
    expect(told.entry).toMatchObject({ kind: "silence", hosts: ["eu/a"], epoch: "1" });
    played.feed({ kind: "told", id: told.id, isDelivered: true });
    expect(played.take("report").isPatient).toBe(true);
    expect(presenceDetails(played.state())).toContain("silent: eu/a");
  });

  it("tells the silence of an agent that never answered only once", () => {
    const played = opened([agentOf("1", "a")]);
    played.feed({ kind: "terms", id: played.take("ask-terms").id, terms: TERMS });
    played.feed({ kind: "report-failed", id: played.take("report").id, isTimeout: true });
    played.feed({ kind: "told", id: played.take("tell").id, isDelivered: true });
    played.feed({ kind: "report-failed", id: played.take("report").id, isTimeout: true }, 1_000);
    expect(played.open).toEqual([]);
    expect(played.tick()).toBe(6_000);
    expect(played.take("report").isPatient).toBe(true);
  });

  it("asks again after a pause where an agent answers with an error, and tells nothing", () => {
    const played = opened([agentOf("1", "a")]);
    played.feed({ kind: "terms", id: played.take("ask-terms").id, terms: TERMS });
    played.feed({ kind: "report-failed", id: played.take("report").id, isTimeout: false });
    expect(played.open).toEqual([]);
    expect(played.tick()).toBe(5_000);
    expect(played.take("report").isPatient).toBe(false);
  });

  it("watches nobody who was announced before its fleet asked for proof, but for those of the run before", () => {
    const played = opened([agentOf("1", "a")]);
    played.feed({ kind: "announced", present: agentOf("2", "b") });
    const { id } = played.take("ask-terms");
    played.feed({ kind: "terms", id, terms: TERMS, isProofAsked: true });
    expect(played.state().agents.map(({ agent }) => agent.epoch)).toEqual(["1"]);
    // Proven, and heard once more.
    played.feed({ kind: "announced", present: agentOf("2", "b") });
    played.feed({ kind: "report-again" });
    const again = played.take("ask-terms");
    played.feed({ kind: "announced", present: agentOf("3", "c") });
    played.feed({ kind: "terms", id: again.id, terms: TERMS, isProofAsked: true });
    const epochs = played.state().agents.map(({ agent }) => agent.epoch);
    expect(epochs.sort()).toEqual(["1", "2", "3"]);
  });

  it("tells an entry again where there is no fleet", () => {
    const played = opened([agentOf("1", "a")]);
    played.feed({ kind: "terms", id: played.take("ask-terms").id, terms: TERMS });
    const present = agentOf("1", "a");
    played.feed({ kind: "reported", id: played.take("report").id, report: reportOf(present) });
    const first = played.take("tell");
    played.feed({ kind: "told", id: first.id, isDelivered: false });
    expect(played.tick()).toBe(5_000);
    const second = played.take("tell");
    expect(undated(second.entry)).toEqual(undated(first.entry));
    expect(dateOf(second.entry)).toBeGreaterThan(dateOf(first.entry));
    expect(second.id).not.toBe(first.id);
  });

  it("gives a newer agent of the same hosts the place of the older one, and ignores a late older one", () => {
    const played = inContact(agentOf("1", "a"));
    played.feed({ kind: "announced", present: agentOf("2", "a") });
    expect(played.take("cancel").id).toBe(played.contact.id);
    expect(played.take("report").to.agent.epoch).toBe("2");
    played.feed({ kind: "announced", present: agentOf("1", "a") });
    expect(played.open).toEqual([]);
    expect(played.state().agents.map(({ agent }) => agent.epoch)).toEqual(["2"]);
  });

  it("tells the fleet that an agent has ended on purpose, whichever way it says so", () => {
    for (const say of ["signal", "activity"]) {
      const played = inContact(agentOf("1", "a"));
      if (say === "signal") played.feed({ kind: "deregistered", epoch: "1" });
      else played.feed({ kind: "contact-over", id: played.contact.id, how: "ended" });
      expect(undated(played.take("tell").entry)).toEqual({
        kind: "agent-deregistered",
        hosts: ["eu/a"],
        epoch: "1",
      });
      expect(played.state().agents).toEqual([]);
    }
  });

  it("starts every agent from the beginning on new terms when reports are due", () => {
    const played = inContact(agentOf("1", "a"));
    played.feed({ kind: "report-again" });
    const asked = played.take("ask-terms");
    expect(played.open).toEqual([]);
    played.feed({ kind: "terms", id: asked.id, terms: { ...TERMS, silenceMs: 90_000 } });
    expect(played.take("cancel").id).toBe(played.contact.id);
    expect(played.take("report").terms.silenceMs).toBe(90_000);
  });

  it("sends a large report in parts, with the runs of a host whole in one of them", () => {
    const present = agentOf("1", "a", "b");
    const played = opened([present]);
    played.feed({ kind: "terms", id: played.take("ask-terms").id, terms: TERMS });
    const runOn = (host: string) => ({
      host: hostId("eu", host),
      lease: { id: leaseId(token(3)), token: 3 },
    });
    const running = [...Array(150).fill(runOn("a")), ...Array(150).fill(runOn("b"))];
    const report = { ...reportOf(present), running } as AgentReport;
    played.feed({ kind: "reported", id: played.take("report").id, report });
    const first = played.take("tell");
    played.feed({ kind: "told", id: first.id, isDelivered: true });
    const second = played.take("tell");
    expect([first, second].map(({ entry }) => "hosts" in entry && entry.hosts)).toEqual([
      ["eu/a"],
      ["eu/b"],
    ]);
  });

  it("ignores an announcement that is junk", () => {
    const played = opened();
    for (const present of [
      null,
      7,
      { agent: {}, hosts: [] },
      { ...agentOf("1"), hosts: ["nowhere"] },
    ])
      played.feed({ kind: "announced", present });
    expect(played.open).toEqual([]);
  });

  it("continues as new with every agent once its history is long and nothing is on its way to the fleet", () => {
    const played = inContact(agentOf("1", "a"));
    for (let farewell = 0; farewell < 600; farewell += 1)
      played.feed({ kind: "deregistered", epoch: "unknown" });
    const { toldAtMs, ...next } = played.state().next ?? { fleet: "", cluster: "" };
    expect(next).toEqual({ fleet: "f", cluster: "eu", agents: [agentOf("1", "a")] });
    // The next run dates its words after those of this one.
    expect(toldAtMs).toBe(played.state().toldAtMs);
    expect(openPresence({ ...next, toldAtMs: 7 }).state.toldAtMs).toBe(7);
  });
});

describe("a presence in any order of events", () => {
  const EPOCHS = ["1", "2", "3"];
  const happening = fc.oneof(
    fc.constantFrom(...EPOCHS).map((epoch) => ({ announce: epoch })),
    fc.constantFrom(...EPOCHS).map((epoch) => ({ deregister: epoch })),
    fc.constant({ again: true }),
    fc.constant({ tick: true }),
    fc.record({ answer: fc.nat(5), isGood: fc.boolean() }),
  );

  it("never watches two agents of one host, never reuses an id, and answers nothing once it is over", () => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 60 }), (happenings) => {
        const played = opened();
        const ids: number[] = [];
        for (const each of happenings) {
          if ("announce" in each)
            played.feed({ kind: "announced", present: agentOf(each.announce, "a") });
          else if ("deregister" in each)
            played.feed({ kind: "deregistered", epoch: each.deregister });
          else if ("again" in each) played.feed({ kind: "report-again" });
          else if ("tick" in each) {
            if (presenceMachine.dueAtMs(played.state()) < Infinity) played.tick();
          } else {
            const asked = played.open.filter(({ kind }) => kind !== "cancel");
            const command = asked[each.answer % Math.max(1, asked.length)];
            if (command === undefined) continue;
            played.open.splice(played.open.indexOf(command), 1);
            ids.push(command.id);
            played.feed(answerTo(command, each.isGood));
          }
          const { agents } = played.state();
          expect(agents.length).toBeLessThanOrEqual(1);
        }
        expect(new Set(ids).size).toBe(ids.length);
      }),
    );
  });

  function answerTo(command: PresenceCommand, isGood: boolean): PresenceEvent {
    const { id } = command;
    switch (command.kind) {
      case "ask-terms":
        return { kind: "terms", id, terms: TERMS };
      case "report":
        return isGood
          ? { kind: "reported", id, report: reportOf(command.to) }
          : { kind: "report-failed", id, isTimeout: true };
      case "keep-contact":
        return { kind: "contact-over", id, how: isGood ? "ended" : "silent" };
      case "tell":
      case "cancel":
        return { kind: "told", id, isDelivered: isGood };
    }
  }
});
