/**
 * @file Those that choose GPUs on a large cluster: the product's placement with a model, and without one.
 *
 * Both are the place policy of live grants with the ports that a cycle gives it: the model is asked as grants ask it, beside the gangs that run,
 * within a cycle's work. Without a model it is topology alone: the fewest racks, then the fewest hosts.
 */

import type { BandwidthPredictor, Candidate } from "../../../domain/bandwidth/bandwidth-port.ts";
import type { HostGpus } from "../../../domain/lease/lease.ts";
import { leaseId, token } from "../../../domain/values/ids.ts";
import { candidateOf, gpusOf, indicesOf } from "../../../scheduling/admission/domain-hosts.ts";
import { openBandwidth } from "../../../scheduling/cycle/bandwidth.ts";
import { DECIDE_POLICIES } from "../../../scheduling/cycle/decide.ts";
import type { FabricField } from "./field.ts";
import type { FabricState } from "./states.ts";

export type Chooser = (state: FabricState) => Candidate;

const WHERE_NO_MODEL = "topology";

/** By topology alone without a predictor. */
export function productChooser(field: FabricField, predictor?: BandwidthPredictor): Chooser {
  const { domain, spread, layouts } = field;
  const named = predictor ?? { version: WHERE_NO_MODEL, domain, predict: () => [] };
  const indexOf = indicesOf(named);
  return ({ gpus, freeMasks, gangs }) => {
    const leases = new Map(
      gangs.map((gang, at) => [leaseId(token(at + 1)), { gpus: gpusOf(gang, named) }]),
    );
    const bandwidth =
      predictor && openBandwidth({ predictorOf: () => predictor }, { leases, granted: NONE });
    const { gpus: chosen = [] } = DECIDE_POLICIES.place(
      { gpus, maxClusters: 1, isSameHost: false, isSameFabric: false },
      layouts.flatMap((at, host) => {
        const freeMask = freeMasks[host] ?? 0;
        return freeMask === 0 ? [] : [{ at, freeMask }];
      }),
      { spread, ...(bandwidth && { bandwidth: bandwidth.starting }) },
    );
    const pick = candidateOf(chosen, indexOf);
    if (pick === undefined || pick.length === 0)
      throw new Error(`no place for ${String(gpus)} GPUs`);
    return pick;
  };
}

const NONE: readonly { readonly gpus: readonly HostGpus[] }[] = [];
