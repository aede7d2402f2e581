import { afterEach, describe, expect, it } from "vitest";
import { CompleteAsyncError } from "@temporalio/activity";
import { openContactBook } from "../../../activities/agent/contact-book.ts";
import { onlyInContact } from "../../../activities/agent/contact-gate.ts";
import { createFence } from "../../../activities/agent/fence.ts";
import { keepAttendance } from "../../../activities/agent/presence-attendance.ts";
import { nextEpoch } from "../../../activities/agent/presence-epoch.ts";
import type { AttendTask } from "../../../activities/agent/presence-task.ts";
import { openPresence } from "../../../activities/agent/presence.ts";
import type { AgentHost } from "../../../activities/agent/agent-host.ts";
import type { PresenceTerms, RunReport } from "../../../activities/agent-contract.ts";
import type { AgentAddress } from "../../../scheduling/ledger.ts";
import { eventually, HOST, orderOf, removeFolders, testAgent } from "./fixture.ts";

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
function serverOf(...answers: readonly Answer[]) {
  const askedAtMs: number[] = [];
  const ends: string[] = [];
  const task: AttendTask = {
    heartbeat: () => {
      askedAtMs.push(performance.now());
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

function presenceOf(
  host: AgentHost,
  over: { readonly task?: () => AttendTask; readonly sayHere?: () => Promise<void> } = {},
) {
  const clock = (): number => performance.now();
  const hosts = new Map([[HOST, host]]);
  const contacts = openContactBook([host], clock);
  const closing = new AbortController();
  const said: number[] = [];
  let attended = 0;
  const presence = openPresence({
    agent: AGENT,
    hosts,
    contacts,
    clock,
    fence: createFence({ hosts, contacts, clock, onNote: () => undefined }),
    task: over.task ?? (() => serverOf().task),
    sayHere: over.sayHere ?? (() => (said.push(clock()), Promise.resolve())),
    closing: closing.signal,
    onAttended: () => (attended += 1),
  });
  const attend = (): unknown => {
    try {
      return presence.activities.attend(TERMS);
    } catch (error) {
      return error;
    }
  };
  return { presence, contacts, closing, said, attend, attendedTimes: () => attended, clock };
}

describe("an attendance", () => {
  const kept = (answers: readonly Answer[], isWritten = true) => {
    const server = serverOf(...answers);
    const heard: number[] = [];
    const closing = new AbortController();
    const end = keepAttendance(TERMS, {
      task: server.task,
      clock: () => performance.now(),
      onHeard: (sentAtMs) => (heard.push(sentAtMs), isWritten),
      closing: closing.signal,
    });
    return { ...server, heard, closing, end };
  };

  it("beats at once and every third of the silence, and counts the moment of sending", async () => {
    const { askedAtMs, heard, closing, end } = kept(["heard"]);
    await eventually(() => heard.length === 3);
    closing.abort();
    expect(await end).toBe("closing");
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
    expect(await kept(answers).end).toBe(want);
  });

  it("counts no beat that was not heard", async () => {
    const { askedAtMs, heard, closing, end } = kept(["lost"]);
    await eventually(() => askedAtMs.length === 3);
    closing.abort();
    await end;
    expect(heard).toEqual([]);
  });

  it("beats again soon when the contact could not be written down", async () => {
    const { heard, closing, end } = kept(["heard"], false);
    await eventually(() => heard.length === 2);
    closing.abort();
    expect(await end).toBe("closing");
  });
});

describe("presence", () => {
  it("says here until it is attended, and is silent then", async () => {
    let tries = 0;
    const { host } = testAgent();
    const one = presenceOf(host, {
      sayHere: () => (
        (tries += 1),
        tries < 3 ? Promise.reject(new Error("no server")) : Promise.resolve()
      ),
    });
    const keeping = one.presence.keep();
    await eventually(() => tries === 3);
    expect(one.attend()).toBeInstanceOf(CompleteAsyncError);
    expect(one.attendedTimes()).toBe(1);
    await new Promise((wake) => setTimeout(wake, 250));
    expect(tries).toBe(3);
    one.closing.abort();
    await keeping;
  });

  it("says here again when it was forgotten and nobody asks", async () => {
    const { host } = testAgent();
    const server = serverOf("heard", "forgotten");
    const one = presenceOf(host, { task: () => server.task });
    const keeping = one.presence.keep();
    await eventually(() => one.said.length === 1);
    one.presence.activities.report(TERMS).catch(() => undefined);
    one.attend();
    await eventually(() => one.said.length === 2);
    const [, second = 0] = server.askedAtMs;
    // A third of the silence is left to whoever forgot.
    expect((one.said[1] ?? 0) - second).toBeGreaterThanOrEqual(90);
    one.closing.abort();
    await keeping;
  });

  it("does not say here again when whoever forgot asks by itself", async () => {
    const { host } = testAgent();
    const servers = [serverOf("forgotten"), serverOf("heard")];
    let at = 0;
    const one = presenceOf(host, { task: () => servers[at++]?.task ?? serverOf().task });
    const keeping = one.presence.keep();
    await eventually(() => one.said.length === 1);
    one.attend();
    await eventually(() => servers[0]?.askedAtMs.length === 1);
    one.attend();
    await eventually(() => (servers[1]?.askedAtMs.length ?? 0) >= 4);
    expect(one.said).toHaveLength(1);
    one.closing.abort();
    await keeping;
  });

  it("has a last word when the agent ends, and when it is cancelled", async () => {
    const { host } = testAgent();
    const servers = [serverOf("heard"), serverOf("cancelled")];
    let at = 0;
    const one = presenceOf(host, { task: () => servers[at++]?.task ?? serverOf().task });
    one.attend();
    one.attend();
    await eventually(() => servers[1]?.ends.length === 1);
    one.closing.abort();
    await one.presence.ended();
    expect(servers.map(({ ends }) => ends)).toEqual([["ended"], ["cancelled"]]);
  });

  it("makes contact by attending, not by reporting", async () => {
    const { host } = testAgent();
    const one = presenceOf(host);
    await one.presence.activities.report(TERMS);
    const before = one.contacts.of(HOST)?.uptimeMs ?? 0;
    await new Promise((wake) => setTimeout(wake, 5));
    await one.presence.activities.report(TERMS);
    expect(one.contacts.of(HOST)?.uptimeMs).toBe(before);
    one.attend();
    await eventually(() => (one.contacts.of(HOST)?.uptimeMs ?? 0) > before);
    one.closing.abort();
  });

  it("reports what runs and what may still start, with the whole lease, and nothing that is over", async () => {
    const agent = testAgent();
    const one = presenceOf(agent.host);
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
    const contacts = openContactBook([host], () => nowMs);
    contacts.agree({ ...TERMS, ...(over.onSilence && { onSilence: over.onSilence }) });
    nowMs += over.contactMs ?? 0;
    const activities = onlyInContact(
      { run: () => Promise.resolve(REPORT) },
      {
        contacts,
        clock: () => (nowMs += 10),
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
    const contacts = openContactBook([host], () => nowMs);
    contacts.agree(TERMS);
    nowMs = 5_000;
    const activities = onlyInContact(
      { run: () => Promise.resolve(REPORT) },
      {
        contacts,
        clock: () => (nowMs += 9_000),
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
      last: [nextEpoch([], 1_700_000_000_000)],
      nowMs: 1_700_000_000_000,
    },
    {
      name: "after the clock was set back",
      last: [nextEpoch([], 1_900_000_000_000)],
      nowMs: 1_700_000_000_000,
    },
    {
      name: "after several, and one that is no epoch",
      last: [nextEpoch([], 1_900_000_000_000), "?", ""],
      nowMs: 1_700_000_000_000,
    },
  ])("$name is higher by code unit", ({ last, nowMs }) => {
    const epoch = nextEpoch(last, nowMs);
    expect(epoch).toMatch(/^[0-9a-z]{8}[0-9a-f]{6}$/);
    for (const earlier of last.filter((one) => one.length > 8)) expect(epoch > earlier).toBe(true);
  });
});
