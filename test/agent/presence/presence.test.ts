import { afterEach, describe, expect, it } from "vitest";
import { CompleteAsyncError } from "@temporalio/activity";
import { openContactStore } from "../../../agent/presence/contact-store.ts";
import { onlyInContact } from "../../../agent/presence/contact-gate.ts";
import { createFence } from "../../../agent/presence/fence.ts";
import { keepHeartbeat } from "../../../agent/presence/heartbeat.ts";
import { nextEpoch } from "../../../agent/presence/epoch.ts";
import type { HeartbeatTask } from "../../../agent/ports/temporal.ts";
import { openPresence } from "../../../agent/presence/presence.ts";
import type { AgentHost } from "../../../agent/runs/agent-host.ts";
import type { PresenceTerms, RunReport } from "../../../protocol/agent-contract.ts";
import type { AgentAddress } from "../../../domain/lease/inbox-entry.ts";
import { eventually, HOST, orderOf, removeFolders, systemAt, testAgent } from "../fixture.ts";
import { fakeAgent } from "../fake-host.ts";
import { FakeMachine } from "../fakes.ts";

afterEach(removeFolders);

const TERMS: PresenceTerms = {
  fleet: "default",
  epoch: "e1",
  silenceMs: 300,
  fenceMs: 100_000,
  onSilence: "fence",
};
const AGENT: AgentAddress = {
  epoch: "e1",
  runQueue: "run.e1",
  orderQueue: "order.e1",
  address: "a",
};

type Answer = "heard" | "forgotten" | "cancelled" | "lost";

/** Answers as told, the last one again and again; remembers when it was asked. */
function serverOf(machine: FakeMachine, ...answers: readonly Answer[]) {
  const askedAtMs: number[] = [];
  const ends: string[] = [];
  const task: HeartbeatTask = {
    heartbeat: () => {
      askedAtMs.push(machine.uptimeMs);
      const answer = answers[Math.min(askedAtMs.length, answers.length) - 1] ?? "heard";
      return answer === "lost" ? Promise.reject(new Error("unavailable")) : Promise.resolve(answer);
    },
    end: (how) => {
      ends.push(how);
      return Promise.resolve();
    },
  };
  return { task, askedAtMs, ends };
}

/** Looks until `look` gives something, on the machine's clock. */
async function eventuallyOn(machine: FakeMachine, look: () => boolean): Promise<void> {
  for (let leftMs = 60_000; !look(); leftMs -= 10) {
    if (leftMs <= 0) throw new Error(`not within a minute: ${look.toString()}`);
    await machine.pass(10);
  }
}

function presenceOf(
  machine: FakeMachine,
  host: AgentHost,
  over: {
    readonly task?: () => HeartbeatTask;
    readonly announce?: () => Promise<void>;
    readonly givenAtMs?: () => number;
  } = {},
) {
  const { system } = host;
  const { clock } = system;
  const hosts = new Map([[HOST, host]]);
  const contacts = openContactStore([host], system);
  const closing = new AbortController();
  const said: number[] = [];
  let attended = 0;
  const presence = openPresence({
    agent: AGENT,
    hosts,
    contacts,
    clock,
    fence: createFence({ hosts, contacts, clock, onNote: () => undefined }),
    task: over.task ?? (() => serverOf(machine).task),
    givenAtMs: over.givenAtMs ?? (() => 0),
    announce: over.announce ?? (() => (said.push(clock.sinceBootMs()), Promise.resolve())),
    closing: closing.signal,
    onHeartbeat: () => (attended += 1),
  });
  const keepContact = (): unknown => {
    try {
      return presence.activities.keepContact(TERMS);
    } catch (error) {
      return error;
    }
  };
  return { presence, contacts, closing, said, keepContact, attendedTimes: () => attended, clock };
}

describe("an attendance", () => {
  const kept = (answers: readonly Answer[], isWritten = true) => {
    const machine = new FakeMachine();
    const server = serverOf(machine, ...answers);
    const heard: number[] = [];
    const closing = new AbortController();
    const end = keepHeartbeat(TERMS, {
      task: server.task,
      clock: machine.system().clock,
      onHeard: (sentAtMs) => (heard.push(sentAtMs), isWritten),
      closing: closing.signal,
    });
    return { ...server, machine, heard, closing, end: () => machine.until(end) };
  };

  it("beats at once and every third of the silence, and counts the moment of sending", async () => {
    const { machine, askedAtMs, heard, closing, end } = kept(["heard"]);
    await eventuallyOn(machine, () => heard.length === 3);
    closing.abort();
    expect(await end()).toBe("closing");
    for (const [at, sentAtMs] of heard.entries()) {
      expect(sentAtMs).toBeLessThanOrEqual(askedAtMs[at] ?? 0);
    }
    const [first = 0, second = 0, third = 0] = askedAtMs;
    expect(second - first).toBeGreaterThanOrEqual(90);
    expect(third - second).toBeGreaterThanOrEqual(90);
  });

  it.each([
    { answers: ["heard", "forgotten"] as const, want: "forgotten" },
    { answers: ["cancelled"] as const, want: "cancelled" },
    { answers: ["lost", "lost", "forgotten"] as const, want: "forgotten" },
  ])("ends as the server says: $want", async ({ answers, want }) => {
    expect(await kept(answers).end()).toBe(want);
  });

  it("counts no beat that was not heard", async () => {
    const { machine, askedAtMs, heard, closing, end } = kept(["lost"]);
    await eventuallyOn(machine, () => askedAtMs.length === 3);
    closing.abort();
    await end();
    expect(heard).toEqual([]);
  });

  it("beats again soon when the contact could not be written down", async () => {
    const { machine, heard, closing, end } = kept(["heard"], false);
    await eventuallyOn(machine, () => heard.length === 2);
    closing.abort();
    expect(await end()).toBe("closing");
  });
});

describe("presence", () => {
  it("says here until it is attended, and is silent then", async () => {
    let tries = 0;
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const one = presenceOf(machine, host, {
      announce: () => (
        (tries += 1),
        tries < 3 ? Promise.reject(new Error("no server")) : Promise.resolve()
      ),
    });
    const keeping = one.presence.keep();
    await eventuallyOn(machine, () => tries === 3);
    expect(one.keepContact()).toBeInstanceOf(CompleteAsyncError);
    expect(one.attendedTimes()).toBe(1);
    await machine.pass(250);
    expect(tries).toBe(3);
    one.closing.abort();
    await machine.until(keeping);
  });

  it("says here again when it was forgotten and nobody asks", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const server = serverOf(machine, "heard", "forgotten");
    const one = presenceOf(machine, host, { task: () => server.task });
    const keeping = one.presence.keep();
    await eventuallyOn(machine, () => one.said.length === 1);
    one.presence.activities.report(TERMS).catch(() => undefined);
    one.keepContact();
    await eventuallyOn(machine, () => one.said.length === 2);
    const [, second = 0] = server.askedAtMs;
    // A third of the silence is left to whoever forgot.
    expect((one.said[1] ?? 0) - second).toBeGreaterThanOrEqual(90);
    one.closing.abort();
    await machine.until(keeping);
  });

  it("does not say here again when whoever forgot asks by itself", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const servers = [serverOf(machine, "forgotten"), serverOf(machine, "heard")];
    let at = 0;
    const one = presenceOf(machine, host, {
      task: () => servers[at++]?.task ?? serverOf(machine).task,
    });
    const keeping = one.presence.keep();
    await eventuallyOn(machine, () => one.said.length === 1);
    one.keepContact();
    await eventuallyOn(machine, () => servers[0]?.askedAtMs.length === 1);
    one.keepContact();
    await eventuallyOn(machine, () => (servers[1]?.askedAtMs.length ?? 0) >= 4);
    expect(one.said).toHaveLength(1);
    one.closing.abort();
    await machine.until(keeping);
  });

  it("has a last word when the agent ends, and when it is cancelled", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const servers = [serverOf(machine, "heard"), serverOf(machine, "cancelled")];
    let at = 0;
    const one = presenceOf(machine, host, {
      task: () => servers[at++]?.task ?? serverOf(machine).task,
    });
    one.keepContact();
    one.keepContact();
    await eventuallyOn(machine, () => servers[1]?.ends.length === 1);
    one.closing.abort();
    await machine.until(one.presence.ended());
    expect(servers.map(({ ends }) => ends)).toEqual([["ended"], ["cancelled"]]);
  });

  it("makes contact by attending, not by reporting", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const one = presenceOf(machine, host);
    await one.presence.activities.report(TERMS);
    const before = one.contacts.of(HOST)?.uptimeMs ?? 0;
    await machine.pass(5);
    await one.presence.activities.report(TERMS);
    expect(one.contacts.of(HOST)?.uptimeMs).toBe(before);
    one.keepContact();
    await eventuallyOn(machine, () => (one.contacts.of(HOST)?.uptimeMs ?? 0) > before);
    one.closing.abort();
  });

  it("is in doubt about an order that was given before the question what runs, once it has told it", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const asked = [5_000, 3_000];
    const { presence, contacts } = presenceOf(machine, host, {
      givenAtMs: () => asked.shift() ?? 0,
    });
    const doubted = (): readonly boolean[] =>
      [4_999, 5_000].map((givenAtMs) => contacts.isInDoubt(HOST, givenAtMs));
    expect(doubted()).toEqual([false, false]);
    await presence.activities.report(TERMS);
    expect(doubted()).toEqual([true, false]);
    await presence.activities.report(TERMS);
    expect(doubted()).toEqual([true, false]);
  });

  it("reports what runs and what may still start, with the whole lease, and nothing that is over", async () => {
    const agent = testAgent();
    const one = presenceOf(new FakeMachine(), agent.host);
    await agent.runs.run(orderOf("exit 0", { leaseId: "lease-3" as never, token: 3 as never }));
    const running = orderOf("exec sleep 60", {
      gang: [
        { host: HOST, mask: 0b11, address: "10.0.0.1" },
        { host: "eu-1/host-2" as never, mask: 1, address: "10.0.0.2" },
      ],
    });
    const report = agent.runs.run(running);
    await eventually(() => agent.task.beats.some((beat) => beat?.token === 5));
    expect(await one.presence.activities.report(TERMS)).toEqual({
      agent: AGENT,
      hosts: [HOST],
      running: [
        {
          host: HOST,
          lease: {
            id: running.leaseId,
            token: running.token,
            jobId: running.jobId,
            gpus: [
              { host: HOST, mask: 0b11 },
              { host: "eu-1/host-2", mask: 1 },
            ],
            ...running.holder,
          },
        },
      ],
      highestToken: 5,
    });
    agent.task.cancel("asked");
    await report;
    expect(await one.presence.activities.report(TERMS)).toMatchObject({ running: [] });
  });
});

describe("a start", () => {
  const REPORT: RunReport = {
    host: HOST,
    hasStarted: true,
    endedAtMs: 1,
    ranks: [],
    end: "completed",
  };
  const gated = (over: {
    readonly contactMs?: number;
    readonly onSilence?: "hold";
    readonly isKnown?: boolean;
  }) => {
    let nowMs = 100_000;
    const { host } = testAgent();
    const contacts = openContactStore(
      [host],
      systemAt(() => nowMs),
    );
    contacts.agree({ ...TERMS, ...(over.onSilence && { onSilence: over.onSilence }) });
    nowMs += over.contactMs ?? 0;
    const activities = onlyInContact(
      { run: () => Promise.resolve(REPORT) },
      {
        contacts,
        clock: systemAt(() => (nowMs += 10)).clock,
        isKnown: () => over.isKnown ?? false,
        cancelled: () => new AbortController().signal,
      },
    );
    return { run: () => activities.run(orderOf("exit 0")), note: () => contacts.note(nowMs) };
  };

  it.each([
    { name: "in contact", contactMs: 100 },
    { name: "under hold", contactMs: 5_000, onSilence: "hold" as const },
    { name: "that is known already", contactMs: 5_000, isKnown: true },
  ])("$name goes on at once", async (over) => {
    expect(await gated(over).run()).toBe(REPORT);
  });

  it("waits for the first heartbeat of an agent that has just reported", async () => {
    const { run, note } = gated({ contactMs: 5_000 });
    const started = run();
    note();
    expect(await started).toBe(REPORT);
  });

  it("is refused when no contact comes", async () => {
    let nowMs = 0;
    const { host } = testAgent();
    const contacts = openContactStore(
      [host],
      systemAt(() => nowMs),
    );
    contacts.agree(TERMS);
    nowMs = 5_000;
    const activities = onlyInContact(
      { run: () => Promise.resolve(REPORT) },
      {
        contacts,
        clock: systemAt(() => (nowMs += 9_000)).clock,
        isKnown: () => false,
        cancelled: () => new AbortController().signal,
      },
    );
    await expect(activities.run(orderOf("exit 0"))).rejects.toMatchObject({ type: "HOST_REFUSED" });
  });
});

describe("an epoch", () => {
  it.each([
    { name: "after none", last: [], nowMs: 1_700_000_000_000 },
    { name: "after an earlier one", last: ["lnt2f4qoabcdef"], nowMs: 1_800_000_000_000 },
    {
      name: "after one of the same millisecond",
      last: [nextEpoch([], 1_700_000_000_000, "a1b2c3")],
      nowMs: 1_700_000_000_000,
    },
    {
      name: "after the clock was set back",
      last: [nextEpoch([], 1_900_000_000_000, "a1b2c3")],
      nowMs: 1_700_000_000_000,
    },
    {
      name: "after several, and one that is no epoch",
      last: [nextEpoch([], 1_900_000_000_000, "a1b2c3"), "?", ""],
      nowMs: 1_700_000_000_000,
    },
  ])("$name is higher by code unit", ({ last, nowMs }) => {
    const epoch = nextEpoch(last, nowMs, "a1b2c3");
    expect(epoch).toMatch(/^[0-9a-z]{8}[0-9a-f]{6}$/);
    for (const earlier of last.filter((one) => one.length > 8)) expect(epoch > earlier).toBe(true);
  });
});
