/**
 * @file Reads the gang and the constraints of a request that came from outside.
 *
 * What is wrong is noted with its place, as in inbox-entry.ts. Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import {
  COLLECTIVES,
  USUAL_MESSAGES,
  type MessageProfile,
} from "../../domain/bandwidth/message-profile.ts";
import {
  LINK_PREFERENCES,
  type Constraints,
  type Gang,
  type LinkPreference,
} from "../../domain/job/job.ts";
import type { GpuNeed } from "../../domain/job/job-resources.ts";
import { clusterId, parseHostId } from "../../domain/values/ids.ts";
import { gib, ms } from "../../domain/values/units.ts";
import {
  amount,
  count,
  field,
  flag,
  id,
  list,
  optional,
  optionally,
  text,
  wrong,
  type Incoming,
} from "./json-fields.ts";
import { PRICED_RULES, RESOURCE_RULES } from "./ledger.ts";

export function parseGang(of: Incoming): Gang {
  const gpus = count(field(of, "gpus"), 1);
  const shapes = optional(field(of, "shapes"), (each) => list(each, (size) => count(size, 1)));
  return {
    gpus,
    min: count(field(of, "min"), 1, gpus),
    timeoutMs: ms(amount(field(of, "timeoutMs"))),
    ...(shapes !== undefined && { shapes }),
    ...(optional(field(of, "mayGrow"), flag) === true && { mayGrow: true as const }),
  };
}

export function parseConstraints(of: Incoming): Constraints {
  const jurisdictions = optional(field(of, "jurisdictions"), (each) => list(each, text));
  const clusters = optional(field(of, "clusters"), (each) =>
    list(each, (name) => clusterId(id(name))),
  );
  const hosts = optional(field(of, "hosts"), (each) => list(each, (name) => parseHostId(id(name))));
  const gpuTypes = optional(field(of, "gpuTypes"), (each) => list(each, text));
  const gpuMemoryGiB = optional(field(of, "gpuMemoryGiB"), (each) => gib(amount(each)));
  const maxClusters = optional(field(of, "maxClusters"), (each) => count(each, 1));
  return {
    ...(jurisdictions !== undefined && { jurisdictions }),
    ...(clusters !== undefined && { clusters }),
    ...(hosts !== undefined && { hosts }),
    ...(gpuTypes !== undefined && { gpuTypes }),
    ...(gpuMemoryGiB !== undefined && { gpuMemoryGiB }),
    ...(maxClusters !== undefined && { maxClusters }),
    isSameHost: flag(field(of, "isSameHost")),
    isSameFabric: flag(field(of, "isSameFabric")),
    ...optionally("antiAffinity", optional(field(of, "antiAffinity"), text)),
    ...optionally("prefer", optional(field(of, "prefer"), preference)),
    ...optionally("messages", optional(field(of, "messages"), parseMessages)),
    ...parseResources(field(of, "resources")),
    ...(of.rules >= PRICED_RULES
      ? optionally("training", optional(field(of, "training"), text))
      : {}),
  };
}

/** Nothing to former rules. */
export const parseResources = (of: Incoming): { readonly resources?: GpuNeed } =>
  of.rules >= RESOURCE_RULES ? optionally("resources", optional(of, parseNeed)) : {};

const parseNeed = (of: Incoming): GpuNeed => ({
  ...optionally(
    "cpus",
    optional(field(of, "cpus"), (each) => amount(each)),
  ),
  ...optionally(
    "memoryGiB",
    optional(field(of, "memoryGiB"), (each) => amount(each)),
  ),
});

function parseMessages(of: Incoming): MessageProfile {
  const name = field(of, "collective");
  const collective = COLLECTIVES.find((each) => each === name.value);
  if (collective === undefined) wrong(name, COLLECTIVES.join(", "));
  return {
    collective: collective ?? USUAL_MESSAGES.collective,
    bytes: count(field(of, "bytes"), 1),
  };
}

function preference(of: Incoming): LinkPreference {
  const known = LINK_PREFERENCES.find((name) => name === of.value);
  if (known === undefined) wrong(of, LINK_PREFERENCES.join(", "));
  return known ?? "bandwidth";
}
