/**
 * @file What decisions know of plans: the step of what a request trains on each of some places, by the planner of running jobs.
 *
 * A text that says no model, a model that cannot be planned, or a planner that fails gives no price, and the usual place stands.
 */

import { parseTraining } from "../domain/job/training-model.ts";
import type { FleetShape } from "../domain/fleet/fleet.ts";
import { fleetSite } from "../planning/parallelism/fleet-site.ts";
import { placePrices } from "../planning/parallelism/place-price.ts";
import { presetModel } from "../planning/parallelism/transformer-layers.ts";
import type { DecidePorts } from "../scheduling/cycle/decide.ts";

type PricesOf = NonNullable<DecidePorts["pricesOf"]>;

export const planPrices =
  (shape: FleetShape): PricesOf =>
  (training, places, work) => {
    const none = { stepMs: places.map(() => undefined), work: 0 };
    try {
      const said = parseTraining(training);
      if (said === undefined) return none;
      const { batch, framework, model } = said;
      return placePrices({
        model: presetModel(model.name, model.shape),
        batch,
        ...(framework !== undefined && { framework }),
        sites: places.map((gpus) => fleetSite(gpus, shape)),
        work,
      });
    } catch {
      return none;
    }
  };
