/**
 * @file A brain that estimates starts now and then as the live fleet does (workflows/fleet.ts), and learns how good its estimates are.
 *
 * The same times, the same jobs drawn, the same events; playing takes no time here. It changes no decision, so simulations that
 * nobody asks for estimates do without.
 */

import { foresee } from "../scheduling/foresight.ts";
import { nextForesightAtMs } from "../scheduling/foresight-clock.ts";
import { brainBut, type OpenBrain } from "./brain.ts";

export const foreseeing =
  (open: OpenBrain): OpenBrain =>
  (ledger) => {
    const brain = open(ledger);
    let doneUpToMs = 0;
    return brainBut(brain, {
      apply(event) {
        const { nowMs } = event;
        const dueAtMs = nextForesightAtMs(brain.ledger, doneUpToMs);
        if (dueAtMs === Infinity) doneUpToMs = Math.max(doneUpToMs, nowMs);
        else if (dueAtMs <= nowMs) {
          // Between two events nothing changed, so this is the ledger of that time.
          const estimates = foresee(brain.ledger, dueAtMs);
          doneUpToMs = nowMs;
          brain.apply({ kind: "foreseen", estimates, askedAtMs: dueAtMs, nowMs: dueAtMs });
        }
        return brain.apply(event);
      },
    });
  };
