/** @file Who sends a request with a bearer token, by the issuers and the principals of `access:`. */

import type { IncomingMessage } from "node:http";
import type { Principal } from "../access/principal.ts";
import { checkToken, issuerKeys } from "../access/token.ts";
import type { Access } from "../domain/fleet/access-schema.ts";

/** A text says why the sender is not known. Throws NO_CONNECTION where the issuer's keys cannot be had. */
export function tokenSender(
  access: () => Access,
): (request: Pick<IncomingMessage, "headers">) => Promise<Principal | string> {
  const keysOf = issuerKeys();
  return async ({ headers }) => {
    const token = /^Bearer (\S+)$/i.exec(headers.authorization ?? "")?.[1];
    if (token === undefined) return "a token is missing (Authorization: Bearer …)";
    const { issuers = [], principals = [] } = access();
    const check = await checkToken(token, { issuers, principals, keysOf, nowMs: Date.now() });
    if (check.kind === "refused") return check.reason;
    const { name, issuer, groups } = check;
    return { name, via: `token:${issuer}`, isOwner: false, groups };
  };
}
