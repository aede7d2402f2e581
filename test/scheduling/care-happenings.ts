/** @file Random silences, fences, audits, lost ledgers and claims, worked out from the ledger that they meet. */
import fc from "fast-check";
import type { FleetShape } from "../../domain/fleet/fleet.ts";
import { jobId, leaseId, runId, tenantId, token } from "../../domain/values/ids.ts";
import type { Lease, LeaseFact } from "../../domain/lease/lease.ts";
import { emptyLedger } from "../../scheduling/ledger/apply/apply.ts";
import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { Ledger } from "../../scheduling/ledger/ledger.ts";
import { hello, host, hostNames } from "./builders.ts";
import type { Happening } from "./happenings.ts";

export const FENCE_MS = 30;

export function careHappenings(shape: FleetShape): fc.Arbitrary<Happening> {
  const names = hostNames(shape);
  const hosts = fc.subarray([...names], { minLength: 1 });
  const some = hosts.map((picked) => picked.map(host));
  return fc.oneof(
    hosts.chain((picked) =>
      fc.nat(2).map((generation): Happening => ({
        name: "silence",
        eventOf: (ledger, nowMs) => ({
          kind: "inbox",
          nowMs,
          entries: picked.map((name) => silenceOf(ledger, name, generation)),
        }),
      })),
    ),
    fc
      .record({ picked: hosts, isNew: fc.boolean(), isHeld: fc.boolean(), isDeaf: fc.boolean() })
      .map(({ picked, isNew, isHeld, isDeaf }): Happening => ({
        name: "hello",
        eventOf: (ledger, nowMs) => ({
          kind: "inbox",
          nowMs,
          entries: picked.map((name) => helloOf(ledger, name, { isNew, isHeld, isDeaf, nowMs })),
        }),
      })),
    some.map((picked): Happening => ({
      name: "fence",
      eventOf: (_, nowMs) => ({ kind: "fence", hosts: picked, nowMs }),
    })),
    fc.constant<Happening>({ name: "clock", eventOf: (_, nowMs) => ({ kind: "clock", nowMs }) }),
    fc.nat(9).map((at): Happening => ({
      name: "audited",
      eventOf: (ledger, nowMs) => {
        const holders = [...ledger.requests.values(), ...ledger.leases.values()];
        const closed = holders[at % Math.max(1, holders.length)];
        return { kind: "audited", closed: closed === undefined ? [] : [closed], nowMs };
      },
    })),
    facts(shape).map((fact): Happening => ({
      name: "claim",
      eventOf: (ledger, nowMs) => ({
        kind: "inbox",
        nowMs,
        entries: [{ kind: "assert", lease: fact(ledger) }],
      }),
    })),
    facts(shape).map((fact): Happening => ({
      name: "an agent runs what nobody knows",
      eventOf: (ledger, nowMs) => ({ kind: "inbox", nowMs, entries: [runningOf(ledger, fact)] }),
    })),
  );
}

const epochOf = (ledger: Ledger, name: string): string => {
  const status = ledger.hosts.get(host(name));
  return status?.agent?.epoch ?? status?.lastEpoch ?? "e1";
};

const silenceOf = (ledger: Ledger, name: string, generation: number): InboxEntry => ({
  kind: "silence",
  hosts: [host(name)],
  epoch: generation === 0 ? "e0" : epochOf(ledger, name),
});

interface HelloSpec {
  readonly isNew: boolean;
  readonly isHeld: boolean;
  /** It has forgotten what it runs. */
  readonly isDeaf: boolean;
  readonly nowMs: number;
}

function helloOf(ledger: Ledger, name: string, spec: HelloSpec): InboxEntry {
  const running = [...ledger.leases.values()].filter(({ gpus }) =>
    gpus.some((part) => part.host === name),
  );
  const epoch = spec.isNew ? `e${1_000 + spec.nowMs}` : epochOf(ledger, name);
  const entry = hello([name], { epoch });
  if (entry.kind !== "agent-registered") return entry;
  return {
    ...entry,
    running: spec.isDeaf
      ? []
      : running.map((lease) => ({
          host: host(name),
          lease: lease.id,
          token: lease.token,
          fact: factOf(lease),
        })),
    terms: spec.isHeld ? {} : { fenceMs: FENCE_MS },
  };
}

function runningOf(ledger: Ledger, fact: (ledger: Ledger) => LeaseFact): InboxEntry {
  const lease = fact(ledger);
  const [first] = lease.gpus;
  const name = first?.host ?? host("c0/h0");
  const entry = hello([name], { epoch: epochOf(ledger, name) });
  if (entry.kind !== "agent-registered") return entry;
  const run = { host: name, lease: lease.id, token: lease.token, fact: lease };
  return { ...entry, running: [run], terms: { fenceMs: FENCE_MS } };
}

/** A lease that there is, bent or not, or one that nobody knows. */
function facts(shape: FleetShape): fc.Arbitrary<(ledger: Ledger) => LeaseFact> {
  return fc
    .record({
      at: fc.option(fc.nat(9), { nil: undefined }),
      token: fc.integer({ min: 1, max: 60 }),
      job: fc.constantFrom("a", "b", "c", "lost"),
      run: fc.constantFrom("run1", "run2"),
      seq: fc.integer({ min: 1, max: 3 }),
      gpus: fc.uniqueArray(
        fc.record({
          host: fc.constantFrom(...hostNames(shape)).map(host),
          mask: fc.integer({ min: 1, max: 7 }),
        }),
        { minLength: 1, maxLength: 2, selector: (part) => part.host },
      ),
    })
    .map(({ at, token: count, job, run, seq, gpus }) => (ledger: Ledger) => {
      const leases = [...ledger.leases.values()];
      const known = at === undefined ? undefined : leases[at % Math.max(1, leases.length)];
      if (known !== undefined) return factOf(known);
      return {
        id: leaseId(token(count)),
        token: token(count),
        jobId: jobId(job),
        runId: runId(`${job}-${run}`),
        seq,
        class: "training",
        tenant: tenantId("free"),
        gpus: [...gpus].sort((a, b) => (a.host < b.host ? -1 : 1)),
        grantedAtMs: 5,
        requestedAtMs: 5,
      };
    });
}

export function factOf(lease: Lease): LeaseFact {
  const { state: _s, vacatingHosts: _v, vacatedHosts: _w, isUnconfirmed: _d, ...fact } = lease;
  return fact;
}

/** The fleet as it starts again after its ledger was lost. */
export const lost = (ledger: Ledger): Ledger => emptyLedger(ledger.shape);
