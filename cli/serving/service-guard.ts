/**
 * @file Who may ask a service: by `access:` of a fleet file, or by one token, or our own user of this machine alone.
 *
 * By `access:` users whose grant names the service's tenant may ask it, viewers may look at its counts, operators may both. Our own user on loopback
 * is an operator, as at the submit service.
 */

import { bearerRefusal, type BearerRule } from "../../access/bearer.ts";
import { rightsOf, serviceRefusal } from "../../access/principal.ts";
import { liveAccess } from "../../api/live-access.ts";
import { tokenSender } from "../../api/remote-sender.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { EndpointParts } from "../../workers/replicas/service-http.ts";
import { fleetIn } from "../command/fleet-files.ts";

type Guard = EndpointParts["guard"];

export function bearerGuard(rule: BearerRule): Guard {
  return (request) => {
    const why = bearerRefusal(request, rule);
    return Promise.resolve(why === undefined ? undefined : { status: 401, why });
  };
}

export interface AccessGuard {
  /** The fleet file. */
  readonly file: string;
  readonly cwd: string;
  readonly tenant: string;
  readonly say: (line: string) => void;
}

export function accessGuard({ file, cwd, tenant, say }: AccessGuard): Guard {
  const live = liveAccess({ file, say, readAccess: (text) => fleetIn(text, file, cwd).access });
  const senderOf = tokenSender(live.access);
  return async (request, act) => {
    if (request.headers.authorization === undefined && bearerRefusal(request, {}) === undefined)
      return undefined;
    // A file that has changed counts from the next request on.
    live.isChanged();
    const sender = await senderOf(request).catch((error: unknown) => {
      if (!(error instanceof OrbweaverError) || error.code !== "NO_CONNECTION") throw error;
      say(error.message);
      return "the issuer's keys cannot be had";
    });
    if (typeof sender === "string") return { status: 401, why: sender };
    const why = serviceRefusal(sender, rightsOf(sender, live.access()), { act, tenant });
    return why === undefined ? undefined : { status: 403, why };
  };
}
