/** @file What would let a waiting job start, each change proved by a decision; and what would become of a job not yet submitted. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jobId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { apply, emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { decide } from "../../../scheduling/cycle/decide.ts";
import type { InboxEntry } from "../../../domain/lease/inbox-entry.ts";
import type { Ledger, LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { unblock, type ChangeKind } from "../../../scheduling/explain/remedies.ts";
import { whatIf } from "../../../scheduling/explain/what-if.ts";
import {
  ask,
  fleetShape,
  gangRequest,
  hello,
  host,
  type ClusterSpec,
  type RequestSpec,
  type TenantSpec,
} from "../builders.ts";
import { caseCount } from "../../support/case-count.ts";

const SECOND_MS = 1_000;

const fold = (ledger: Ledger, event: LedgerEvent): Ledger => apply(ledger, event).ledger;

function cycle(ledger: Ledger, nowMs: number, ...entries: readonly InboxEntry[]): Ledger {
  const notified = fold(ledger, { kind: "inbox", entries, nowMs });
  return fold(notified, { kind: "plan", plan: decide(notified, nowMs), nowMs });
}

function fleet(clusters: readonly ClusterSpec[], tenants: readonly TenantSpec[] = []): Ledger {
  const names = clusters.flatMap(({ hosts = [{}] }, at) => hosts.map((_, h) => `c${at}/h${h}`));
  return cycle(emptyLedger(fleetShape(clusters, tenants)), 0, hello(names));
}

/** One host of eight GPUs in each of two clusters; the first has a job that may not be preempted on all of them. */
const HALF: Ledger = cycle(
  fleet([{}, { jurisdiction: "US" }]),
  1 * SECOND_MS,
  ask({ job: "big", gpus: 8, class: "inference", constraints: { jurisdictions: ["EU"] } }),
);

const at = 100 * SECOND_MS;

function changesFor(ledger: Ledger, spec: RequestSpec) {
  const asked = cycle(ledger, at, ask({ job: "j", ...spec, requestedAtMs: at, submittedAtMs: at }));
  return unblock(asked, jobId("j"), { nowMs: at });
}

describe("the cheapest change", () => {
  const inEurope = { constraints: { jurisdictions: ["EU"] } };
  it.each<[string, Ledger, RequestSpec, ChangeKind, RegExp]>([
    [
      "another site, where one has room",
      HALF,
      { gpus: 4, ...inEurope },
      "constraint",
      /^allow other jurisdictions than EU: c1 has room$/,
    ],
    ["a smaller gang", HALF, { gpus: 12 }, "smaller-gang", /^ask for 8 of the 12 GPUs/],
    [
      "a drain that ends",
      fold(fleet([{}]), { kind: "drain", hosts: [host("c0/h0")], reason: "x", nowMs: 1 }),
      { gpus: 8 },
      "fleet",
      /^undrain c0\/h0$/,
    ],
    [
      "a quota",
      fleet([{}], [{ id: "t", quota: { H100: 4 } }]),
      { gpus: 8, tenant: "t" },
      "smaller-gang",
      /^ask for 4 of the 8/,
    ],
    ["watts", fleet([{ powerWatts: 4 * 700 }]), { gpus: 5 }, "smaller-gang", /^ask for 4 of the 5/],
  ])("is %s", (_, ledger, spec, kind, text) => {
    const [first] = changesFor(ledger, spec);
    expect(first).toMatchObject({ kind, lostGpuSeconds: 0 });
    expect(first?.text).toMatch(text);
  });

  it("is the end of a drain only where no GPU is drained by itself besides", () => {
    const gpus = [{ host: host("c0/h0"), mask: 0b1 }];
    const broken = fold(fleet([{}]), { kind: "drain-gpus", gpus, reason: "x", nowMs: 1 });
    const both = fold(broken, { kind: "drain", hosts: [host("c0/h0")], reason: "x", nowMs: 1 });
    const lifts = (ledger: Ledger, wanted: number) =>
      changesFor(ledger, { gpus: wanted }).flatMap(({ kind, text }) =>
        kind === "fleet" ? [text] : [],
      );
    expect(lifts(broken, 8)).toEqual(["undrain the GPUs of c0/h0"]);
    expect(lifts(both, 7)).toEqual(["undrain c0/h0"]);
    expect(lifts(both, 8)).toEqual([]);
  });

  it("that costs others something is the lease that loses the least", () => {
    const two = cycle(
      fleet([{ hosts: [{}, {}] }]),
      SECOND_MS,
      ask({ job: "old", gpus: 8, class: "inference" }),
    );
    const full = cycle(two, 50 * SECOND_MS, ask({ job: "young", gpus: 8, class: "inference" }));
    const release = changesFor(full, { gpus: 8 }).find(({ kind }) => kind === "release");
    expect(release).toMatchObject({ lostGpuSeconds: 8 * 50, gpus: 8 });
    expect(release?.text).toBe("end lease-2 (young)");
  });

  it("may be several leases together, no more than are needed", () => {
    let ledger = fleet([{ hosts: [{ gpus: 4 }] }]);
    for (const job of ["a", "b", "c", "d"])
      ledger = cycle(ledger, SECOND_MS, ask({ job, class: "inference" }));
    const release = changesFor(ledger, { gpus: 3 }).find(({ kind }) => kind === "release");
    expect(release?.leases).toHaveLength(3);
  });

  it("there is none for a job that starts, runs, or is not known", () => {
    expect(changesFor(HALF, { gpus: 1 })).toEqual([]);
    expect(unblock(HALF, jobId("big"), { nowMs: at })).toEqual([]);
    expect(unblock(HALF, jobId("nobody"), { nowMs: at })).toEqual([]);
  });
});

describe("what if", () => {
  it.each<[string, RequestSpec, string]>([
    ["it fits", { gpus: 8 }, "starts"],
    ["it has to wait", { gpus: 16, constraints: { maxClusters: 2 } }, "waits"],
    ["it never fits into one cluster", { gpus: 16 }, "never"],
    ["it never fits", { gpus: 17, constraints: { maxClusters: 2 } }, "never"],
  ])("%s", (_, spec, kind) => {
    const request = gangRequest({ job: "new", ...spec, submittedAtMs: at, requestedAtMs: at });
    expect(whatIf(HALF, request, { nowMs: at, samples: 3 }).kind).toBe(kind);
  });

  it("says of a hopeless job why, and no time", () => {
    const request = gangRequest({ job: "new", gpus: 99 });
    const found = whatIf(HALF, request, { nowMs: at });
    expect(found).toMatchObject({
      kind: "never",
      reason: { code: "NoMatchingFlavor" },
    });
    expect(found).not.toHaveProperty("forecast");
  });

  it("names whom it would preempt, and that is what the fleet then does", () => {
    const busy = cycle(
      fleet([{}]),
      SECOND_MS,
      ask({ job: "train", gpus: 8, timeLimitMs: ms(1e9) }),
    );
    const request = gangRequest({
      job: "serve",
      gpus: 8,
      class: "inference",
      submittedAtMs: 1e6,
      requestedAtMs: 1e6,
    });
    const found = whatIf(busy, request, { nowMs: 1e6, samples: 3 });
    const notified = fold(busy, {
      kind: "inbox",
      entries: [{ kind: "request", request }],
      nowMs: 1e6,
    });
    const evicted = (decide(notified, 1e6).evict ?? []).map(({ lease }) => lease);
    expect(found.kind === "preempts" ? found.victims.map(({ lease }) => lease) : []).toEqual(
      evicted,
    );
  });

  it("equals the later grant when nothing arrives in between, and changes nothing", () => {
    const spec = fc.record({
      gpus: fc.integer({ min: 1, max: 16 }),
      isSameHost: fc.boolean(),
      class: fc.constantFrom("training", "interactive", "inference"),
    });
    fc.assert(
      fc.property(fc.array(spec, { minLength: 1, maxLength: 6 }), (specs) => {
        let ledger = fleet([{ hosts: [{}, { gpus: 4 }] }, { hosts: [{}] }]);
        for (const [number, { gpus, isSameHost, class: jobClass }] of specs.entries()) {
          const nowMs = SECOND_MS * (number + 1);
          const request = gangRequest({
            job: `j${number}`,
            gpus,
            class: jobClass,
            constraints: { isSameHost },
            submittedAtMs: nowMs,
            requestedAtMs: nowMs,
          });
          const before = ledger;
          const found = whatIf(ledger, request, { nowMs, samples: 1, maxDecisions: 5 });
          expect(ledger).toBe(before);
          ledger = cycle(ledger, nowMs, { kind: "request", request });
          const lease = [...ledger.leases.values()].find((each) => each.jobId === request.jobId);
          expect(found.kind === "starts" ? found.gpus : undefined).toEqual(lease?.gpus);
        }
      }),
      { numRuns: caseCount(30) },
    );
  });
});
