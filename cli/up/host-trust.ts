/** @file Whose jobs the agents of `up` start: as its flags say, else as an earlier `up` was told. */

import { isDeepStrictEqual } from "node:util";
import { resolve } from "node:path";
import type { HostTrust } from "../../access/host-trust.ts";
import { isAlive } from "../../agent/system/process-identity.ts";
import { OrbweaverError } from "../../domain/values/failure.ts";
import type { UpState, UpTrust } from "../../workers/state.ts";
import { hostTrust, type TrustFlags, type TrustName } from "../command/host-trust.ts";
import type { Io } from "../terminal/io.ts";

export interface TrustAsked {
  readonly trust: TrustName | undefined;
  readonly policy: string | undefined;
}

/** Throws NOT_ALLOWED when agents run here that were told otherwise. */
export function upTrust(
  { trust, policy }: TrustAsked,
  { cwd }: Pick<Io, "cwd">,
  former: UpState | undefined,
): { readonly trust: HostTrust; readonly noted: UpTrust | undefined } {
  const isAsked = trust !== undefined || policy !== undefined;
  const noted = isAsked ? notedOf({ trust, policy }, cwd) : former?.trust;
  const hasAgents = former?.workers.some((worker) => worker.role === "agent" && isAlive(worker));
  if (hasAgents === true && !isDeepStrictEqual(noted, former?.trust)) {
    throw new OrbweaverError(
      "NOT_ALLOWED",
      "the agents of this fleet run here and were told otherwise whose jobs they start. Run `orbweaver down` first.",
    );
  }
  return { trust: hostTrust(flagsOf(noted), { cwd }), noted };
}

export const trustArgs = (noted: UpTrust | undefined): readonly string[] =>
  Object.entries(flagsOf(noted)).flatMap(([flag, value]) => [`--${flag}`, String(value)]);

function notedOf({ trust, policy }: TrustAsked, cwd: string): UpTrust | undefined {
  if (policy !== undefined && trust === undefined) return { policy: resolve(cwd, policy) };
  if (policy !== undefined)
    throw new OrbweaverError("BAD_INPUT", "--policy says more than --trust. Give one of them.");
  return trust === "namespace" ? trust : undefined;
}

function flagsOf(noted: UpTrust | undefined): TrustFlags {
  if (noted === undefined) return {};
  return noted === "namespace" ? { trust: noted } : { policy: noted.policy };
}
