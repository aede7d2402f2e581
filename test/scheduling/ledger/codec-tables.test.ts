/** @file The tables of a packed ledger: rows share what they have in common, and only that, so each row comes back as it was. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { HostStatus, OutboxGrant } from "../../../scheduling/ledger/ledger.ts";
import type { PendingReason } from "../../../domain/lease/pending.ts";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import {
  newShared,
  packGrant,
  packHost,
  packRequest,
  profileOf,
  unpackGrant,
  unpackHost,
  unpackRequest,
  type Shared,
  type Tables,
} from "../../../scheduling/ledger/codec-rows.ts";
import { packReason, unpackReason } from "../../../scheduling/ledger/codec-reason-rows.ts";
import { fleetShape, gangRequest, gpus, host, leased, readyLedger } from "../builders.ts";

const MARK = "\u007f";
const HOSTS = ["c0/h0", "c0/h1"].map(host);

const tablesOf = ({ hosts, texts, profiles, agents, reasons }: Shared): Tables => ({
  hosts: hosts.values,
  texts: texts.values,
  profiles: profiles.values.map(profileOf),
  agents: agents.values,
  reasons: reasons.values,
});
const json = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

describe("a request", () => {
  test.each([
    { name: "priority", change: { priority: 1 } },
    { name: "time limit", change: { timeLimitMs: ms(1) } },
    {
      name: "preemption",
      change: { preemption: { isPreemptible: true, mayShrink: false, minRuntimeMs: ms(0) } },
    },
    { name: "checkpoint", change: { checkpoint: { graceMs: ms(5) } } },
    { name: "shapes", change: { gang: { shapes: [4, 2] } } },
    { name: "hosts", change: { constraints: { hosts: HOSTS } } },
    { name: "GPU types", change: { constraints: { gpuTypes: ["H100"] } } },
    { name: "preference", change: { constraints: { prefer: "latency" as const } } },
    {
      name: "messages",
      change: { constraints: { messages: { collective: "alltoall" as const, bytes: 2 ** 20 } } },
    },
  ])("of another $name has another profile", ({ change }) => {
    const shared = newShared(HOSTS);
    const plain = { ...gangRequest(), arrival: 1 };
    const other = { ...gangRequest({ job: "b", ...change }), arrival: 2 };
    const rows = [plain, other].map((each) => packRequest(each, undefined, shared));
    const back = rows.map((row) => unpackRequest(json(row), undefined, tablesOf(shared)));
    expect(back).toEqual([plain, other]);
    expect(shared.profiles.values).toHaveLength(2);
  });
});

describe("a host", () => {
  const agent = (epoch: string, queue: string) => ({
    epoch,
    runQueue: `run.${queue}`,
    orderQueue: `order.${queue}`,
    address: "10.0.0.1",
  });
  const epoch = "0f3c6a52-1111-4222-8333-444455556666";
  const cases: readonly { readonly name: string; readonly status: HostStatus }[] = [
    { name: "without an agent", status: { isDrained: false } },
    {
      name: "whose queues carry the epoch",
      status: { agent: agent(epoch, epoch), isDrained: false },
    },
    { name: "whose queues carry the mark", status: { agent: agent("e1", MARK), isDrained: false } },
    { name: "that is drained", status: { isDrained: true, drainReason: "disk" } },
    { name: "that is drained without a word", status: { isDrained: true, drainReason: "" } },
    {
      name: "two of whose GPUs are drained",
      status: {
        isDrained: false,
        gpuDrains: [
          { mask: 0b100, reason: "heat", sinceMs: 5 },
          { mask: 0b1, reason: "", sinceMs: 6 },
        ],
      },
    },
    { name: "that is silent", status: { isDrained: false, fenceMs: 600_000, silentSinceMs: 0 } },
    { name: "that is fenced", status: { isDrained: false, isFenced: true, fencedAtMs: 7 } },
    { name: "fenced at no known time", status: { isDrained: true, isFenced: true } },
    { name: "that was left", status: { isDrained: false, lastEpoch: "e9" } },
  ];

  test.each(cases)("$name comes back as it was", ({ status }) => {
    const shared = newShared(HOSTS);
    const row = json(packHost(host("c0/h1"), status, shared));
    expect(unpackHost(row, tablesOf(shared))).toEqual(["c0/h1", status]);
  });

  test("does not repeat the epoch in its queues", () => {
    const shared = newShared(HOSTS);
    packHost(host("c0/h0"), { agent: agent(epoch, epoch), isDrained: false }, shared);
    expect(JSON.stringify(shared.agents.values)).not.toContain("444455556666");
  });
});

describe("a grant", () => {
  const [lease] = leased(readyLedger(fleetShape([{}])), {}, gpus(["c0/h0", 1])).leases.values();
  const cases: readonly OutboxGrant[] = [
    { reason: "first" },
    { reason: "predicted", predictedGBs: 0 },
    { reason: "compact", bandwidth: { method: "compact", fallback: "no model" } },
    {
      reason: "searched",
      predictedGBs: 40,
      bandwidth: { method: "searched", predictedGbs: 41, bestGbs: 42, compactGbs: 0, model: "v1" },
    },
  ];

  test.each(cases)("with the reason $reason comes back as it was", (grant) => {
    const shared = newShared(HOSTS);
    const row = json(packGrant(lease, grant, shared));
    expect(unpackGrant(row, tablesOf(shared))).toEqual([lease?.id, grant]);
  });

  test("of no lease cannot be packed", () => {
    expect(() => packGrant(undefined, { reason: "x" }, newShared(HOSTS))).toThrow(/a grant/);
  });
});

describe("a reason", () => {
  const reason = (message: string): PendingReason => ({
    code: "WaitingForGpus",
    message,
    numbers: { needGpus: 8 },
    holders: [jobId("b")],
    wakeOn: ["lease-released"],
  });

  test("comes back with the id of its own job, whatever its message holds", () => {
    const texts = fc.array(fc.constantFrom("job-1", "job-", "$&", " waits for ", MARK));
    fc.assert(
      fc.property(texts, (parts) => {
        const one = reason(parts.join(""));
        expect(unpackReason(json(packReason(jobId("job-1"), one)), jobId("job-1"))).toEqual(one);
      }),
    );
  });

  test("of two jobs in the same situation is stored once", () => {
    const shared = newShared(HOSTS);
    const rows = ["a1", "a2"].map((job) => packReason(jobId(job), reason(`${job} needs 8 GPUs`)));
    expect(rows.map(shared.reasons.indexOf)).toEqual([0, 0]);
    const [row] = shared.reasons.values;
    expect(row && unpackReason(row, jobId("a2")).message).toBe("a2 needs 8 GPUs");
  });
});
