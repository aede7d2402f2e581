/**
 * @file What decisions know of plans: the step of what a request trains on each of some places, by the planner of running jobs.
 *
 * The steps that runs of the model measured anywhere in the fleet correct them (step-corrections.ts).
 * A text that says no model, a model that cannot be planned, or a planner that fails gives no price, and the usual place stands.
 */

import { parseTraining } from "../domain/job/training-model.ts";
import type { KeptStep } from "../domain/model/step-record.ts";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import { fleetSites } from "../planning/parallelism/fleet-site.ts";
import { learnedSites, modelKey } from "../planning/parallelism/step-corrections.ts";
import { placePrices } from "../planning/parallelism/place-price.ts";
import { presetModel } from "../planning/parallelism/transformer-layers.ts";
import type { DecidePorts } from "../scheduling/cycle/decide.ts";

/** Of reading a text, in cells. */
const TEXT_WORK = 4;
/** Records that are fitted to once, for one cell. */
const RECORDS_FITTED = 4;

type PricesOf = NonNullable<DecidePorts["pricesOf"]>;

export interface LearnedPrices {
  /** By the bandwidth models of all clusters; none when absent. */
  readonly kept?: readonly KeptStep[];
  /** Called each time that places are priced. */
  readonly onAsked?: () => void;
}

export function planPrices(
  shape: FleetShape,
  { kept = [], onAsked }: LearnedPrices = {},
): PricesOf {
  let siteOf: ReturnType<typeof fleetSites> | undefined;
  return ({ text, tenant }, places, work) => {
    const none = { stepMs: places.map(() => undefined), work: TEXT_WORK };
    const said = parseTraining(text);
    if (said === undefined) return none;
    onAsked?.();
    const { batch, framework } = said;
    try {
      siteOf ??= fleetSites(shape);
      const model = presetModel(said.model.name, said.model.shape);
      // Records of other models are passed over, however many clusters keep some.
      const key = kept.length === 0 ? "" : modelKey(model);
      const own = kept.filter((step) => step.model === key);
      const fitted = own.length / RECORDS_FITTED;
      const priced = placePrices({
        model,
        batch,
        ...(framework !== undefined && { framework }),
        sites: learnedSites(model, places.map(siteOf), { kept: own, tenant }),
        work: work - fitted,
      });
      return { stepMs: priced.stepMs, work: priced.work + fitted };
    } catch {
      // Nobody knows how much it did.
      return { ...none, work };
    }
  };
}
