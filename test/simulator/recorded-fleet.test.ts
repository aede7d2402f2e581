/** @file What a live fleet went through, with its times, gives the same plans in the simulator: one brain, two bodies. */
import { readdirSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import type { Plan } from "../../domain/lease/plan.ts";
import { apply, checkLedger } from "../../scheduling/ledger/apply/apply.ts";
import { DECIDE_POLICIES, decide } from "../../scheduling/cycle/decide.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import { schedulerWith } from "../../simulator/scheduler.ts";
import { recordedFleet } from "./recorded-events.ts";

const FOLDER = path.join(import.meta.dirname, "../histories");
/** In it a host reported a lease between a plan and its application, so that a grant was refused. */
const REPAIRED = "fleet.repaired.json";
/** In it a host was drained between a plan and its application, likewise. */
const DRAINED = "fleet.spaced-end.json";
/** In it more came at once than a turn reads, so that senders took turns; the reader of these tests knows one order. */
const IN_TURNS = "fleet.fair-inbox.json";
const files = readdirSync(FOLDER).filter(
  (file) => /^fleet\..*\.json$/.test(file) && ![REPAIRED, DRAINED, IN_TURNS].includes(file),
);

/** What of a plan changes the ledger; reasons to wait are for people, and a simulation asks for none. */
const deeds = ({ items, reserve = [], evict = [] }: Plan): unknown => ({ items, reserve, evict });

describe.each(files)("the recorded fleet of %s", (file) => {
  const { ledger: first, events } = recordedFleet(path.join(FOLDER, file));

  it("is told whole: its ledger is sound after every event, and nothing that it planned is refused", () => {
    let ledger = first;
    for (const event of events) {
      const applied = apply(ledger, event);
      ledger = applied.ledger;
      expect(checkLedger(ledger)).toEqual([]);
      if (event.kind === "plan") expect(applied.refusals).toEqual([]);
    }
    expect(events.filter(({ kind }) => kind === "plan").length).toBeGreaterThan(0);
  });

  it("decides in the simulator as the live fleet decides, at each of its times", () => {
    const simulated = schedulerWith(DECIDE_POLICIES)(first);
    let live = first;
    for (const event of events) {
      if (event.kind === "plan") {
        const ofLive = decide(unpackLedger(packLedger(live)), event.nowMs);
        expect(deeds(simulated.decide(event.nowMs))).toEqual(deeds(ofLive));
      }
      simulated.apply(event);
      live = apply(live, event).ledger;
    }
    expect(packLedger(simulated.ledger)).toEqual(packLedger(live));
  });

  it("starts in the simulator who was started then, at the same size and time", () => {
    const simulated = schedulerWith(DECIDE_POLICIES)(first);
    const started = ({ items }: Plan): unknown =>
      items.flatMap((item) =>
        item.kind === "grant" ? [[item.request, item.slots, gpusOf(item.gpus)]] : [],
      );
    for (const event of events) {
      if (event.kind === "plan")
        expect(started(simulated.decide(event.nowMs))).toEqual(started(event.plan));
      simulated.apply(event);
    }
  });
});

const gpusOf = (gpus: readonly { readonly mask: number }[]): number =>
  gpus.reduce((sum, { mask }) => sum + mask.toString(2).replaceAll("0", "").length, 0);
