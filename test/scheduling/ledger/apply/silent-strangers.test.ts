/** @file A host that has fallen silent before a fleet that lost its ledger has heard of it is fenced as any other; under former rules it never was. */

import { describe, expect, test } from "vitest";
import { jobId, leaseId, runId, tenantId, token } from "../../../../domain/values/ids.ts";
import { ms } from "../../../../domain/values/units.ts";
import { apply, emptyLedger } from "../../../../scheduling/ledger/apply/apply.ts";
import type { Ledger } from "../../../../scheduling/ledger/ledger.ts";
import { checkLedger } from "../../../../scheduling/ledger/rules/invariants.ts";
import { fleetShape, gpus, hello, host, inbox } from "../../builders.ts";

const HOST = host("c0/h0");
const shape = fleetShape([{ hosts: [{}, {}, {}] }]);
/** Lost, and a job has asserted the lease that it has on the first host. */
const LOST = inbox({ ...emptyLedger(shape), recovery: { tokensBelow: 100 } }, [
  {
    kind: "assert",
    lease: {
      id: leaseId(token(7)),
      token: token(7),
      jobId: jobId("a"),
      runId: runId("a-run1"),
      seq: 1,
      class: "training",
      tenant: tenantId("t"),
      gpus: gpus(["c0/h0", 1]),
      grantedAtMs: 5,
      requestedAtMs: 4,
    },
  },
]).ledger;

const TEN_MINUTES = 600_000;
const silence = (epoch: string) => ({ kind: "silence", hosts: [HOST], epoch }) as const;
const silent = (ledger: Ledger, epoch = "e5", atMs = 1_000): Ledger =>
  inbox(ledger, [hello(["c0/h1", "c0/h2"]), silence(epoch)], atMs).ledger;
const later = (ledger: Ledger, nowMs: number): Ledger =>
  apply(ledger, { kind: "clock", nowMs }).ledger;
const isFenced = ({ hosts }: Ledger): boolean => hosts.get(HOST)?.isFenced === true;

describe("a silent host that the ledger has never heard of", () => {
  test("is fenced after ten minutes, and not a moment earlier", () => {
    const ledger = silent(LOST);
    expect(checkLedger(ledger)).toEqual([]);
    expect(isFenced(later(ledger, 1_000 + TEN_MINUTES - 1))).toBe(false);
    const after = later(ledger, 1_000 + TEN_MINUTES);
    expect(isFenced(after)).toBe(true);
    expect(checkLedger(after)).toEqual([]);
  });

  test("answers, and nothing of the silence is left", () => {
    const back = inbox(silent(LOST), [hello(["c0/h0"], { epoch: "e5" })], 2_000).ledger;
    expect(back.hosts.get(HOST)).not.toHaveProperty("silentSinceMs");
    expect(isFenced(later(back, 2_000 + TEN_MINUTES))).toBe(false);
  });

  test("waits for its cluster's own time where that is longer, and for an operator where the cluster says so", () => {
    const [cluster] = shape.clusters;
    if (cluster === undefined) throw new Error("there is a cluster");
    const changed = (more: object): Ledger => ({
      ...LOST,
      shape: { ...shape, clusters: [{ ...cluster, ...more }] },
    });
    const patient = silent(changed({ fenceMs: ms(2 * TEN_MINUTES) }));
    expect(isFenced(later(patient, 1_000 + 2 * TEN_MINUTES - 1))).toBe(false);
    expect(isFenced(later(patient, 1_000 + 2 * TEN_MINUTES))).toBe(true);
    expect(isFenced(later(silent(changed({ onSilence: "hold" })), 1e9))).toBe(false);
  });

  test("that the description lacks stays unknown; others that are silent from the beginning hold up no fence", () => {
    const gone = inbox(LOST, [{ ...silence("e5"), hosts: [HOST, host("c9/h9")] }], 1_000).ledger;
    expect([...gone.hosts.keys()]).toEqual([HOST]);
    const all = inbox(gone, [{ ...silence("e6"), hosts: [host("c0/h1")] }], 1_000).ledger;
    expect(isFenced(later(all, 1_000 + TEN_MINUTES))).toBe(true);
  });

  test("comes back under terms of hold, and its clock is gone", () => {
    const held = { ...hello(["c0/h0"], { epoch: "e5" }), terms: {} };
    const back = inbox(silent(LOST), [held], 2_000).ledger;
    expect(back.hosts.get(HOST)).not.toHaveProperty("fenceMs");
    const former = inbox({ ...silent(LOST), applyVersion: 3 }, [held], 2_000).ledger;
    expect(former.hosts.get(HOST)).toHaveProperty("fenceMs");
  });

  test("stays silent through a drain and its end", () => {
    const drained = apply(silent(LOST), {
      kind: "drain",
      hosts: [HOST],
      reason: "repair",
      nowMs: 2,
    });
    const open = apply(drained.ledger, { kind: "undrain", hosts: [HOST], nowMs: 3 }).ledger;
    expect(isFenced(later(open, 1_000 + TEN_MINUTES))).toBe(true);
  });

  test("is believed to be silent although an older agent of it was fenced once; a late copy of that one's silence is not", () => {
    const fenced = new Map(LOST.hosts).set(HOST, {
      isDrained: false,
      isFenced: true,
      lastEpoch: "e3",
    });
    const known = { ...LOST, hosts: fenced };
    const believed = silent(known, "e5");
    expect(believed.hosts.get(HOST)).not.toHaveProperty("isFenced");
    expect(isFenced(later(believed, 1_000 + TEN_MINUTES))).toBe(true);
    expect(silent(known, "e3").hosts.get(HOST)).not.toHaveProperty("silentSinceMs");
  });

  test("is nothing to rules before version 4", () => {
    const former = { ...LOST, applyVersion: 3 };
    expect(silent(former).hosts.has(HOST)).toBe(false);
  });
});
