/**
 * @file What decisions know of plans: the step of what a request trains on each of some places, by the planner of running jobs.
 *
 * A text that says no model, a model that cannot be planned, or a planner that fails gives no price, and the usual place stands.
 */

import { parseTraining } from "../domain/job/training-model.ts";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import { fleetSites } from "../planning/parallelism/fleet-site.ts";
import { placePrices } from "../planning/parallelism/place-price.ts";
import { presetModel } from "../planning/parallelism/transformer-layers.ts";
import type { DecidePorts } from "../scheduling/cycle/decide.ts";

/** Of reading a text, in cells. */
const TEXT_WORK = 4;

type PricesOf = NonNullable<DecidePorts["pricesOf"]>;

export function planPrices(shape: FleetShape): PricesOf {
  let siteOf: ReturnType<typeof fleetSites> | undefined;
  return (training, places, work) => {
    const none = { stepMs: places.map(() => undefined), work: TEXT_WORK };
    const said = parseTraining(training);
    if (said === undefined) return none;
    const { batch, framework, model } = said;
    try {
      siteOf ??= fleetSites(shape);
      return placePrices({
        model: presetModel(model.name, model.shape),
        batch,
        ...(framework !== undefined && { framework }),
        sites: places.map(siteOf),
        work,
      });
    } catch {
      // Nobody knows how much it did.
      return { ...none, work };
    }
  };
}
