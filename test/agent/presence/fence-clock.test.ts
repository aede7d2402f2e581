import { describe, expect, it } from "vitest";
import { clusterId, hostId } from "../../../domain/values/ids.ts";
import { openContactStore } from "../../../agent/presence/contact-store.ts";
import { contactPath, writeContact } from "../../../agent/presence/last-contact.ts";
import { createFence, watchFence } from "../../../agent/presence/fence.ts";
import { HOST, orderOf } from "../fixture.ts";
import { fakeAgent, ranksOn, type FakeAgent } from "../fake-host.ts";
import type { GangView } from "../../../agent/ports/temporal.ts";
import { FakeMachine } from "../fakes.ts";

const TERMS = {
  fleet: "default",
  epoch: "e1",
  silenceMs: 8_000,
  fenceMs: 30_000,
  onSilence: "fence",
} as const;

/** The watch of an agent's fence. */
function guard(machine: FakeMachine, { host }: FakeAgent) {
  const system = machine.system();
  const hosts = new Map([[HOST, host]]);
  const contacts = openContactStore([host], system);
  const notes: string[] = [];
  const ports = {
    hosts,
    contacts,
    clock: system.clock,
    onNote: (note: string) => notes.push(note),
  };
  const dead = new AbortController();
  watchFence(createFence(ports), ports, dead.signal);
  return { contacts, notes, die: () => dead.abort() };
}

/** A run whose rank ignores TERM, on a machine whose agent has just agreed on terms. */
async function running() {
  const machine = new FakeMachine();
  machine.onSignal = (process, signal) => signal === "SIGKILL" && process.end({ signal });
  const agent = fakeAgent(machine);
  const report = agent.runs.run(orderOf("train", { run: { graceMs: 60_000 as never } }));
  await machine.pass(1_000);
  expect(ranksOn(machine)).toHaveLength(1);
  const watch = guard(machine, agent);
  watch.contacts.agree(TERMS);
  return { machine, agent, report, ...watch, agreedAtMs: machine.uptimeMs };
}

describe("the fence of a silent host", () => {
  it("does nothing up to fenceMs, and has killed everything a quarter of the silence after the look that follows", async () => {
    const { machine, report, notes } = await running();
    await machine.pass(30_000);
    expect(notes).toEqual([]);
    expect(ranksOn(machine)).toHaveLength(1);
    // Looks come every second at the latest; TERM is ignored, and KILL follows 2 s later.
    await machine.pass(1_000);
    expect(notes).toHaveLength(1);
    expect(ranksOn(machine)).toHaveLength(1);
    await machine.pass(2_100);
    expect(ranksOn(machine)).toEqual([]);
    expect((await machine.until(report)).cause?.code).toBe("HOST_LOST");
  });

  it("counts from the last contact that was noted", async () => {
    const { machine, contacts, notes } = await running();
    await machine.pass(29_000);
    contacts.note(machine.uptimeMs);
    await machine.pass(30_000);
    expect(notes).toEqual([]);
    await machine.pass(1_000);
    expect(notes).toHaveLength(1);
  });

  it("is not put off by a restart of the agent", async () => {
    const { machine, die } = await running();
    await machine.pass(20_000);
    die();
    const { notes } = guard(machine, fakeAgent(machine));
    await machine.pass(10_000);
    expect(notes).toEqual([]);
    await machine.pass(1_000);
    expect(notes).toHaveLength(1);
  });

  it("is kept by the shim half a silence later when the agent is dead", async () => {
    const { machine, die, agent } = await running();
    die();
    await machine.pass(34_000);
    expect(ranksOn(machine)).toHaveLength(1);
    // It looks every quarter of the silence, and twice before it acts.
    await machine.pass(2_000 + 100);
    expect(ranksOn(machine)).toEqual([]);
    const stop = agent.host.layout.leaseDir(orderOf("").leaseId);
    expect(machine.text(`${stop}/stop.json`)).toContain("its agent did not act");
  });
});

describe("an agent that goes on after a silence", () => {
  it("starts nothing while its host is cut off: the fleet may have granted the GPUs elsewhere", async () => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine, { contact: { isCutOff: () => true } });
    const report = await machine.until(agent.runs.run(orderOf("train")));
    expect(report.hasStarted).toBe(false);
    expect(ranksOn(machine)).toEqual([]);
  });

  it("starts only what the server still wants of it, which its own heartbeat shows", async () => {
    const order = orderOf("train");
    let beats: GangView["beats"] = [];
    const machine = new FakeMachine();
    const contact = { isInDoubt: () => true };
    const agent = fakeAgent(machine, { contact, view: () => ({ isClosed: false, beats }) });
    const report = agent.runs.run(order);
    await machine.pass(5_000);
    expect(ranksOn(machine)).toEqual([]);
    expect(agent.lastBeat()).toMatchObject({ phase: "prepared", token: order.token });
    beats = [{ phase: "prepared", host: HOST, token: order.token }];
    await machine.pass(2_000);
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    expect((await machine.until(report)).end).toBe("completed");
  });

  it("notes when the server gave a run that it refuses: the job may go on elsewhere, and an attempt from before come late", async () => {
    const machine = new FakeMachine();
    const noted: number[] = [];
    const contact = { noteAnswer: (givenAtMs: number) => void noted.push(givenAtMs) };
    const { runs } = fakeAgent(machine, { contact });
    const good = runs.run(orderOf("train"));
    await machine.pass(2_000);
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    expect((await machine.until(good)).end).toBe("completed");
    expect(noted).toEqual([]);
    const elsewhere = orderOf("train", { host: hostId(clusterId("eu-1"), "elsewhere") });
    await expect(runs.run(elsewhere)).rejects.toMatchObject({ type: "HOST_REFUSED" });
    expect(noted).toEqual([0]);
  });

  it("is in doubt about all orders for a minute after a contact that has ended a silence", async () => {
    const machine = new FakeMachine();
    const contacts = openContactStore([fakeAgent(machine).host], machine.system());
    const states: string[] = [];
    const look = (): void =>
      void states.push(`${contacts.isInDoubt(HOST, 0)} ${contacts.isCutOff(HOST)}`);
    look();
    contacts.agree(TERMS);
    await machine.pass(8_000);
    look();
    await machine.pass(1_000);
    look();
    await machine.pass(22_000);
    look();
    const beat = async (seconds: number): Promise<void> => {
      for (let second = 0; second < seconds; second += 1) {
        contacts.note(machine.uptimeMs);
        await machine.pass(1_000);
      }
    };
    await beat(59);
    look();
    await beat(1);
    look();
    expect(states).toEqual([
      "false false",
      "false false",
      "true false",
      "true true",
      "true false",
      "false false",
    ]);
  });
});

describe("a shim whose agent is dead", () => {
  const terms = { silenceMs: 1_000, fenceMs: 1_000, onSilence: "fence" as const };

  it.each([
    { name: "kills its ranks", silentMs: 2_000, over: {}, wantKilled: true },
    { name: "waits for its agent first", silentMs: 1_200, over: {}, wantKilled: false },
    {
      name: "does nothing under hold",
      silentMs: 60_000,
      over: { onSilence: "hold" as const },
      wantKilled: false,
    },
    {
      name: "does nothing for another start of the machine",
      silentMs: 60_000,
      over: { bootId: "earlier" },
      wantKilled: false,
    },
    { name: "does nothing without a contact", silentMs: undefined, over: {}, wantKilled: false },
  ])("$name", async ({ silentMs, over, wantKilled }) => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine);
    const report = agent.runs.run(orderOf("train"));
    await machine.pass(1_000);
    const { files, processes } = machine.system();
    // As if the silence stood still: only what the shim makes of it is looked at.
    for (let lookedMs = 0; lookedMs < 10_000; lookedMs += 50) {
      if (silentMs !== undefined) {
        const uptimeMs = machine.uptimeMs - silentMs;
        const contact = { bootId: processes.bootId(), uptimeMs, ...terms, ...over };
        writeContact(files, contactPath(agent.host.layout.dir), contact);
      }
      await machine.pass(50);
    }
    expect(ranksOn(machine)).toHaveLength(wantKilled ? 0 : 1);
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    const want = wantKilled ? "HOST_LOST" : undefined;
    expect((await machine.until(report)).cause?.code).toBe(want);
  });
});

describe("a shim whose host's folder was lost while its agent was away", () => {
  it.each([
    { name: "goes by the contact that it read last", isRead: true, want: 0 },
    { name: "knows no terms where it never read one", isRead: false, want: 1 },
  ])("$name", async ({ isRead, want }) => {
    const machine = new FakeMachine();
    const agent = fakeAgent(machine);
    const report = agent.runs.run(orderOf("train"));
    await machine.pass(1_000);
    const { files, processes } = machine.system();
    const path = contactPath(agent.host.layout.dir);
    const terms = { silenceMs: 20_000, fenceMs: 1_000, onSilence: "fence" as const };
    if (isRead) {
      const uptimeMs = machine.uptimeMs;
      writeContact(files, path, { bootId: processes.bootId(), uptimeMs, ...terms });
      await machine.pass(6_000);
      files.remove(path);
    }
    expect(ranksOn(machine)).toHaveLength(1);
    await machine.pass(20_000);
    expect(ranksOn(machine)).toHaveLength(want);
    for (const rank of ranksOn(machine)) rank.end({ exitCode: 0 });
    await machine.until(report);
  });
});

describe("the watch over a fence", () => {
  it("looks again and again, the more often the shorter the silence, until the agent ends", async () => {
    const machine = new FakeMachine();
    const { host } = fakeAgent(machine);
    const system = machine.system();
    const hosts = new Map([[HOST, host]]);
    const contacts = openContactStore([host], system);
    const closing = new AbortController();
    let looks = 0;
    const ports = { hosts, contacts, clock: system.clock };
    watchFence({ look: () => (looks += 1) }, ports, closing.signal);
    expect(looks).toBe(1);
    await machine.pass(3_000);
    expect(looks).toBe(4);
    contacts.agree({ ...TERMS, silenceMs: 2_000 });
    await machine.pass(2_000);
    expect(looks).toBe(4 + 1 + 5);
    closing.abort();
    await machine.pass(10_000);
    expect(looks).toBe(4 + 1 + 5);
  });
});
