/**
 * @file Whether somebody who has opened a session might still open it: asked while the session is open, because grants, names and keys are withdrawn meanwhile.
 *
 * A token that has expired since is no reason: its owner was known when the session began, and has a new one for the next.
 */

import type { Socket } from "node:net";
import { rightsOf, type Principal } from "../access/principal.ts";
import type { Access } from "../domain/fleet/access-schema.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { allowedToRun } from "./job-facts.ts";
import { AccessRefusal, type ServedFleet } from "./route.ts";

/** Of an open session. */
export interface SessionOwner {
  readonly principal: Principal;
  readonly job: string;
  /** Who is at the other end of the connection by which it was opened, asked again; a text says why nobody knows. */
  readonly askAgain: () => Promise<Principal | string>;
}

/**
 * Nobody sees the certificate of a connection that is gone: its client may come back by another one within the relay's grace, and is asked there. Until then
 * nothing passes.
 */
export const askedAgain =
  (
    known: Principal,
    { socket, senderOf }: { readonly socket: Socket; readonly senderOf: SessionOwner["askAgain"] },
  ): SessionOwner["askAgain"] =>
  () =>
    socket.destroyed ? Promise.resolve(known) : senderOf();

/** Why it has to end; undefined where it goes on, or where that cannot be known now. */
export async function sessionRefusal(
  served: ServedFleet,
  access: Access,
  { principal, job, askAgain }: SessionOwner,
): Promise<string | undefined> {
  const unknown = nameRefusal(principal, access);
  if (unknown !== undefined) return unknown;
  try {
    if (principal.via === "certificate") {
      const sender = await askAgain();
      if (typeof sender === "string") return sender;
      if (sender.name !== principal.name) return `its certificate is ${sender.name}'s now`;
    }
    await allowedToRun(served, { principal, rights: rightsOf(principal, access) }, job);
    return undefined;
  } catch (error) {
    return isVerdict(error) ? error.message : undefined;
  }
}

/** An answer of the job that is not believed, as of a worker without keys, is NOT_ALLOWED, too, and says nothing of rights. */
const isVerdict = (error: unknown): error is OrbweaverError =>
  error instanceof AccessRefusal || (error instanceof OrbweaverError && error.code === "NOT_FOUND");

/** Names of tokens whose subject has none in the file begin with their issuer. */
function nameRefusal(
  { name, via, isOwner }: Principal,
  { principals = [], issuers = [] }: Access,
): string | undefined {
  if (isOwner) return undefined;
  const issuer = /^token:(.*)$/.exec(via)?.[1];
  if (issuer !== undefined && !issuers.some((each) => each.name === issuer))
    return `access.issuers has no ${issuer} any more`;
  const isNamed = principals.some((each) => each.name === name);
  return isNamed || (issuer !== undefined && name.startsWith(`${issuer}:`))
    ? undefined
    : `access.principals has no ${name} any more`;
}
