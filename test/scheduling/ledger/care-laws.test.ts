/** @file Laws of silence, fences, audits and lost leases, over random histories. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { HostId, LeaseId } from "../../../domain/values/ids.ts";
import { apply, checkLedger, isMassSilence } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger, unpackLedger } from "../../../scheduling/ledger/codec.ts";
import type { Applied, Ledger, LedgerEvent } from "../../../scheduling/ledger/ledger.ts";
import { takenGpus } from "../../../scheduling/ledger/rules/usage.ts";
import { fleets } from "../arbitraries.ts";
import { readyLedger } from "../builders.ts";
import { careHappenings, FENCE_MS } from "../care-happenings.ts";
import { happenings } from "../happenings.ts";
import { caseCount } from "../../support/case-count.ts";

interface Step {
  readonly before: Ledger;
  readonly event: LedgerEvent;
  readonly applied: Applied;
  readonly nowMs: number;
}

function always(law: (step: Step, past: readonly Step[]) => void, numRuns = caseCount(200)): void {
  const histories = fleets.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      steps: fc.array(
        fc.tuple(
          fc.oneof(happenings(shape), careHappenings(shape)),
          fc.integer({ min: 0, max: 20 }),
        ),
        { minLength: 5, maxLength: 40 },
      ),
    }),
  );
  fc.assert(
    fc.property(histories, ({ shape, steps }) => {
      let ledger = readyLedger(shape);
      let nowMs = 0;
      const past: Step[] = [];
      for (const [happening, pauseMs] of steps) {
        nowMs += pauseMs;
        const event = happening.eventOf(ledger, nowMs);
        const step = { before: ledger, event, applied: apply(ledger, event), nowMs };
        law(step, past);
        past.push(step);
        ledger = step.applied.ledger;
      }
    }),
    { numRuns },
  );
}

test("every invariant holds after every event, whatever falls silent, is fenced, lost or claimed", () => {
  always(({ applied }) => {
    expect(checkLedger(applied.ledger).filter((line) => !line.startsWith("over-use"))).toEqual([]);
  });
});

test("a ledger comes back from its packed form as it was", () => {
  always(({ applied: { ledger } }) => {
    const copy = unpackLedger(JSON.parse(JSON.stringify(packLedger(ledger))) as never);
    expect(copy).toEqual(ledger);
    expect([...copy.leases.keys()]).toEqual([...ledger.leases.keys()]);
  });
});

test("nothing is granted on a host that is silent or fenced", () => {
  always(({ before, applied }) => {
    for (const id of applied.granted) {
      for (const { host } of applied.ledger.leases.get(id)?.gpus ?? []) {
        const status = before.hosts.get(host);
        expect([status?.silentSinceMs, status?.isFenced]).toEqual([undefined, undefined]);
      }
    }
  });
});

test("tokens only grow, whatever agents and jobs claim", () => {
  always(({ before, applied }) => {
    expect(applied.ledger.nextToken).toBeGreaterThanOrEqual(before.nextToken);
    for (const id of applied.granted) {
      const token = applied.ledger.leases.get(id)?.token ?? 0;
      for (const lease of before.leases.values()) expect(token).toBeGreaterThan(lease.token);
    }
  });
});

test("silence takes no GPU from anybody before its time; mass silence none at all", () => {
  always(({ before, event, applied, nowMs }) => {
    if (event.kind !== "clock") return;
    for (const [host, status] of applied.ledger.hosts) {
      const former = before.hosts.get(host);
      if (status.isFenced !== true || former?.isFenced === true) continue;
      expect(isMassSilence(before.hosts)).toBe(false);
      expect(nowMs - (former?.silentSinceMs ?? Infinity)).toBeGreaterThanOrEqual(FENCE_MS);
    }
  });
});

test("a taken GPU becomes free only by its job's end, its host's word, a new agent, a fence or the audit", () => {
  always(({ before, event, applied }) => {
    const lost = partsOf(before).filter((part) => !partsOf(applied.ledger).includes(part));
    if (lost.length === 0) return;
    const isWord =
      event.kind === "inbox" ||
      event.kind === "fence" ||
      event.kind === "clock" ||
      event.kind === "audited" ||
      event.kind === "delivered";
    expect([event.kind, isWord]).toEqual([event.kind, true]);
  });
});

const partsOf = ({ leases }: Ledger): string[] =>
  [...leases.values()].flatMap((lease) =>
    takenGpus(lease).map(({ host }: { readonly host: HostId }) => `${lease.id as LeaseId} ${host}`),
  );
