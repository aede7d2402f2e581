/**
 * @file A scheduler that estimates starts from time to time, as the live fleet does (machines/fleet/estimates.ts), and learns how good its estimates are.
 *
 * Times, drawn jobs and events are the same, and playing takes no simulated time. It changes no decision, so simulations without
 * questions about estimates omit it.
 */

import { estimateStarts } from "../scheduling/forecast/self-forecast.ts";
import { nextEstimateAtMs } from "../scheduling/ledger/apply/estimate-clock.ts";
import { schedulerBut, type OpenScheduler } from "./scheduler.ts";

export const selfEstimating =
  (open: OpenScheduler): OpenScheduler =>
  (ledger) => {
    const scheduler = open(ledger);
    let doneUpToMs = 0;
    return schedulerBut(scheduler, {
      apply(event) {
        const { nowMs } = event;
        const dueAtMs = nextEstimateAtMs(scheduler.ledger, doneUpToMs);
        if (dueAtMs === Infinity) doneUpToMs = Math.max(doneUpToMs, nowMs);
        else if (dueAtMs <= nowMs) {
          // Between two events nothing changed, so this is the ledger of that time.
          const estimates = estimateStarts(scheduler.ledger, dueAtMs);
          doneUpToMs = nowMs;
          scheduler.apply({ kind: "estimated", estimates, askedAtMs: dueAtMs, nowMs: dueAtMs });
        }
        return scheduler.apply(event);
      },
    });
  };
