/**
 * @file Reads what comes from lobbies: their reports, and the place of a request that was called in.
 *
 * Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import type { JobClass } from "../../domain/job/job.ts";
import type { GangRequest } from "../../domain/lease/lease.ts";
import type { FirstByClass, LobbyReport } from "../../domain/lease/lobby.ts";
import { tenantId } from "../../domain/values/ids.ts";
import { count, field, id, list, optional, optionally, type Incoming } from "./json-fields.ts";
import { JUDGED_ONCE_RULES } from "./ledger.ts";

/** Of rules before rounds had eras, and since. */
const [FORMER_MAX_ROUND, MAX_ROUND] = [1_000_000, 1e12];

export function parseLobbyReport(of: Incoming): LobbyReport {
  const waiting = field(of, "waiting");
  return {
    tenant: tenantId(id(field(of, "tenant"))),
    report: count(field(of, "report"), 1),
    waiting: {
      inference: count(field(waiting, "inference"), 0),
      interactive: count(field(waiting, "interactive"), 0),
      training: count(field(waiting, "training"), 0),
    },
    ...(of.rules >= JUDGED_ONCE_RULES &&
      optionally("first", optional(field(of, "first"), parseFirst))),
    returned: list(field(of, "returned"), (each) => count(each, 1)),
  };
}

function parseFirst(of: Incoming): FirstByClass {
  const firstOf = (name: JobClass): FirstByClass =>
    optionally(
      name,
      optional(field(of, name), (each) => ({
        round: count(field(each, "round"), 0, MAX_ROUND),
        count: count(field(each, "count"), 0),
      })),
    );
  return { ...firstOf("inference"), ...firstOf("interactive"), ...firstOf("training") };
}

/** Of a request that comes from a lobby. */
export const parsePlace = (of: Incoming): Pick<GangRequest, "credit" | "round"> => ({
  ...optionally(
    "credit",
    optional(field(of, "credit"), (each) => count(each, 1)),
  ),
  ...optionally(
    "round",
    optional(field(of, "round"), (each) =>
      count(each, 1, of.rules >= JUDGED_ONCE_RULES ? MAX_ROUND : FORMER_MAX_ROUND),
    ),
  ),
});
