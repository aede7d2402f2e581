import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { openContactStore } from "../../../agent/presence/contact-store.ts";
import { contactPath, readContact, writeContact } from "../../../agent/presence/last-contact.ts";
import type { Contact } from "../../../agent/presence/last-contact.ts";
import { createFence } from "../../../agent/presence/fence.ts";
import { nodeSystem } from "../../../agent/system/node-system.ts";
import { bootId } from "../../../agent/system/process-identity.ts";
import { readFile } from "../../../agent/system/state-files.ts";
import type { PresenceTerms } from "../../../protocol/agent-contract.ts";
import {
  eventually,
  folder,
  HOST,
  orderOf,
  pidIn,
  removeFolders,
  runs,
  systemAt,
  testAgent,
  type TestAgent,
} from "../fixture.ts";

afterEach(removeFolders);

const { files } = nodeSystem;
const { sinceBootMs } = nodeSystem.clock;

const TERMS: PresenceTerms = {
  fleet: "default",
  epoch: "e1",
  silenceMs: 2_000,
  fenceMs: 10_000,
  onSilence: "fence",
};

/** An agent's fence under a clock of the test's own. */
function fenceOf(agent: TestAgent, terms: PresenceTerms | null = TERMS) {
  // Far ahead of the real one, by which the shims go: they are to see no silence.
  let nowMs = sinceBootMs() + 1e9;
  const system = systemAt(() => nowMs);
  const { clock } = system;
  const hosts = new Map([[HOST, agent.host]]);
  const contacts = openContactStore([agent.host], system);
  if (terms !== null) expect(contacts.agree(terms)).toBe(true);
  const notes: string[] = [];
  const fence = createFence({ hosts, contacts, clock, onNote: (note) => notes.push(note) });
  return {
    contacts,
    fence,
    notes,
    pass: (forMs: number) => {
      nowMs += forMs;
    },
    now: clock.sinceBootMs,
  };
}

describe("the fence of a host", () => {
  it("stops what runs when the contact is older than the fence, and says for how long", async () => {
    const dir = folder();
    const agent = testAgent();
    // Deaf to TERM, with a grace far beyond what lies between our fence and the fleet's.
    const order = orderOf(`trap '' TERM; echo $$ > ${dir}/pid; while :; do sleep 0.05; done`, {
      run: { graceMs: 60_000 as never },
    });
    const report = agent.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    const { fence, pass, notes } = fenceOf(agent);
    pass(10_000);
    fence.look();
    expect(notes).toEqual([]);
    expect(runs(rank)).toBe(true);
    pass(1_000);
    fence.look();
    fence.look();
    expect(await report).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", message: expect.stringContaining("11 s") },
    });
    expect(runs(rank)).toBe(false);
    expect(notes).toHaveLength(1);
  });

  it.each([
    { name: "while contact is kept", terms: TERMS, wantStop: false, contactEachMs: 9_000 },
    { name: "under hold", terms: { ...TERMS, onSilence: "hold" as const }, wantStop: false },
    { name: "before any terms were agreed on", terms: null, wantStop: false },
    { name: "after a silence that is too long", terms: TERMS, wantStop: true },
  ])("$name stops $wantStop", async ({ terms, wantStop, contactEachMs }) => {
    const dir = folder();
    const agent = testAgent();
    const report = agent.runs.run(orderOf(`echo $$ > ${dir}/pid; exec sleep 60`));
    await pidIn(join(dir, "pid"));
    const { fence, pass, contacts, notes, now } = fenceOf(agent, terms);
    if (terms === null) expect(existsSync(contactPath(agent.host.layout.dir))).toBe(false);
    for (let step = 0; step < 5; step += 1) {
      pass(contactEachMs ?? 9_000);
      fence.look();
      if (contactEachMs !== undefined) contacts.note(now());
    }
    expect(notes).toHaveLength(wantStop ? 1 : 0);
    const stop = join(agent.host.layout.leaseDir(orderOf("").leaseId), "stop.json");
    expect(existsSync(stop)).toBe(wantStop);
    // It ends before its folder goes: a launch whose supervisor is gone begins another one there.
    if (!wantStop) agent.task.cancel("asked");
    expect((await report).cause?.code === "HOST_LOST").toBe(wantStop);
  });

  it("cuts short a stop that grants its processes more than there is", async () => {
    const dir = folder();
    const agent = testAgent();
    const order = orderOf(`trap '' TERM; echo $$ > ${dir}/pid; while :; do sleep 0.05; done`, {
      run: { graceMs: 60_000 as never },
    });
    const report = agent.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    agent.task.cancel("asked");
    await eventually(() => readFile<{ termAtMs?: number }>(agent.filesOf(order).stop)?.termAtMs);
    const { fence, pass } = fenceOf(agent);
    pass(10_001);
    fence.look();
    await report;
    expect(runs(rank)).toBe(false);
  });

  it("calls off what has not started yet", async () => {
    const agent = testAgent();
    const order = orderOf("exit 0", {
      gang: [
        { host: HOST, mask: 1, address: "a" },
        { host: "eu-1/host-2" as never, mask: 1, address: "b" },
      ],
      prepareTimeoutMs: 20_000,
    });
    const report = agent.runs.run(order);
    await eventually(() => agent.task.beats.some((beat) => beat?.phase === "prepared"));
    const { fence, pass } = fenceOf(agent);
    pass(10_001);
    fence.look();
    expect(await report).toMatchObject({
      end: "failed",
      hasStarted: false,
      cause: { code: "HOST_LOST" },
    });
  });

  it("ends what a restarted agent finds when the contact it inherits is too old", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`);
    const abandoned = old.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    const { contacts, now } = fenceOf(old);
    contacts.note(now());
    old.task.cancel("shutdown");
    await Promise.allSettled([abandoned]);

    const restarted = testAgent({ stateDir: old.stateDir });
    const { fence, pass } = fenceOf(restarted, null);
    pass(10_001);
    fence.look();
    await eventually(() => !runs(rank));
    expect((await restarted.runs.run(order)).cause?.code).toBe("HOST_LOST");
  });
});

describe("contact", () => {
  const contact: Contact = {
    bootId: bootId(),
    uptimeMs: 1_000,
    silenceMs: 2_000,
    fenceMs: 10_000,
    onSilence: "fence",
  };
  const bookOf = (stored: Contact | undefined, nowMs: number) => {
    const dir = folder();
    if (stored !== undefined) writeContact(files, contactPath(dir), stored);
    const book = openContactStore(
      [{ id: HOST, layout: { dir } }],
      systemAt(() => nowMs),
    );
    return { dir, book };
  };

  it.each([
    { name: "of the same start of the machine", stored: contact, wantMs: 1_000 },
    { name: "of an earlier one", stored: { ...contact, bootId: "earlier" }, wantMs: 5_000 },
    { name: "from the future", stored: { ...contact, uptimeMs: 9_000 }, wantMs: 5_000 },
  ])("$name is inherited as $wantMs", ({ stored, wantMs }) => {
    const { book } = bookOf(stored, 5_000);
    expect(book.of(HOST)).toEqual({ ...contact, uptimeMs: wantMs });
  });

  it("does not come of new terms, except on a host that had none", () => {
    const fresh = bookOf(undefined, 5_000);
    expect(fresh.book.of(HOST)).toBeUndefined();
    fresh.book.agree(TERMS);
    expect(fresh.book.of(HOST)?.uptimeMs).toBe(5_000);
    const known = bookOf(contact, 5_000);
    known.book.agree({ ...TERMS, fenceMs: 77 });
    expect(known.book.of(HOST)).toEqual({ ...contact, fenceMs: 77 });
    expect(readContact(files, contactPath(known.dir))).toEqual({ ...contact, fenceMs: 77 });
  });

  it("never goes back, and does not count when it cannot be written down", () => {
    const { dir, book } = bookOf(contact, 5_000);
    expect(book.note(4_000)).toBe(true);
    expect(book.note(3_000)).toBe(true);
    expect(readContact(files, contactPath(dir))?.uptimeMs).toBe(4_000);
    removeFolders();
    expect(book.note(4_500)).toBe(false);
    expect(book.of(HOST)?.uptimeMs).toBe(4_000);
  });

  it("is nothing when its file is missing, broken, or of another shape", () => {
    const path = contactPath(folder());
    expect(readContact(files, path)).toBeUndefined();
    for (const text of ["{", "null", "[]", '{"bootId":"x","uptimeMs":"1"}']) {
      writeFileSync(path, text);
      expect(readContact(files, path)).toBeUndefined();
    }
  });

  it("is written into the old file where there is no room for a new one", () => {
    const path = contactPath(folder());
    writeContact(files, path, { ...contact, uptimeMs: 123_456_789 });
    // A name that is too long for a second file beside it stands in for a full disk.
    const long = join(path, "..", "n".repeat(255));
    writeFileSync(long, readFileSync(path));
    writeContact(files, long, { ...contact, uptimeMs: 5 });
    expect(readContact(files, long)?.uptimeMs).toBe(5);
  });
});

describe("a shim", () => {
  const shortTerms = { silenceMs: 1_000, fenceMs: 1_000 } as const;
  const LATER_MS = 3_600_000;

  it("kills its ranks and what they have left behind when nobody else does", async () => {
    const dir = folder();
    const agent = testAgent();
    const path = contactPath(agent.host.layout.dir);
    const write = (uptimeMs: number): void =>
      writeContact(files, path, { bootId: bootId(), onSilence: "fence", ...shortTerms, uptimeMs });
    // However long it takes to start, the silence comes after.
    write(sinceBootMs() + LATER_MS);
    const order = orderOf(
      `(setsid sh -c 'echo $$ > ${dir}/daemon; exec sleep 60' &); echo $$ > ${dir}/pid; exec sleep 60`,
    );
    const report = agent.runs.run(order);
    const [rank, daemon] = await Promise.all([pidIn(join(dir, "pid")), pidIn(join(dir, "daemon"))]);
    write(sinceBootMs() - 2_000);
    expect(await report).toMatchObject({
      end: "failed",
      cause: { code: "HOST_LOST", message: expect.stringContaining("cut off") },
    });
    expect([runs(rank), runs(daemon)]).toEqual([false, false]);
  });

  it("has noted why, so that an agent that comes back reports it", async () => {
    const dir = folder();
    const old = testAgent();
    const order = orderOf(`echo $$ > ${dir}/pid; exec sleep 60`);
    const path = contactPath(old.host.layout.dir);
    const contact: Contact = {
      bootId: bootId(),
      onSilence: "fence",
      ...shortTerms,
      uptimeMs: sinceBootMs(),
    };
    writeContact(files, path, { ...contact, uptimeMs: sinceBootMs() + LATER_MS });
    const abandoned = old.runs.run(order);
    const rank = await pidIn(join(dir, "pid"));
    writeContact(files, path, contact);
    old.task.cancel("shutdown");
    await Promise.allSettled([abandoned]);
    await eventually(() => !runs(rank));

    const { cause } = await testAgent({ stateDir: old.stateDir }).runs.run(order);
    expect(cause?.code).toBe("HOST_LOST");
  });
});
