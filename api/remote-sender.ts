/**
 * @file Who sends a request from elsewhere, by the issuers and the principals of `access:`: with a bearer token, else with a client certificate where the door
 * asks for one.
 */

import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { checkCertificate } from "../access/certificate.ts";
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

/** As `tokenSender`, for a door that also asks for certificates: who shows a token is known by that alone. */
export function remoteSender(
  access: () => Access,
): (request: Pick<IncomingMessage, "headers" | "socket">) => Promise<Principal | string> {
  const byToken = tokenSender(access);
  return async (request) => {
    const { headers, socket } = request;
    if (headers.authorization !== undefined || !(socket instanceof TLSSocket))
      return await byToken(request);
    const certificate = socket.getPeerX509Certificate();
    if (certificate === undefined)
      return "a token (Authorization: Bearer …) or a client certificate is missing";
    // Those who are not signed by an authority of the door come through, so that a token can be shown instead.
    if (!socket.authorized) return unauthorized(String(socket.authorizationError));
    const { principals = [] } = access();
    const check = checkCertificate(certificate, { principals, nowMs: Date.now() });
    return check.kind === "refused"
      ? check.reason
      : { name: check.name, via: "certificate", isOwner: false, groups: [] };
  };
}

/** `error`: a code of OpenSSL's check of certificates. */
function unauthorized(error: string): string {
  if (error === "CERT_REVOKED") return "its certificate has been revoked";
  if (/CRL/.test(error))
    return `whether its certificate has been revoked is not known (${error}): the file of --client-crl needs a list of its authority that is in date`;
  return "no authority of this service has signed its certificate";
}
