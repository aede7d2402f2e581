/**
 * @file Whose a client certificate is: the principal that `access:` gives one of its names, its subject or one of its subject alternative names (RFC 5280, 4.1.2.6
 * and 4.2.1.6).
 *
 * The TLS layer has checked who signed it. A certificate whose names `access:` does not know is nobody's, and so is one whose names are of two principals.
 * Names are compared as whole texts, in which what could be taken for another name is escaped.
 */

import type { X509Certificate } from "node:crypto";
import type { PrincipalEntry } from "../domain/fleet/access-schema.ts";

export type CertificateCheck =
  | { readonly kind: "known"; readonly name: string }
  | { readonly kind: "refused"; readonly reason: string };

export interface CertificateRule {
  readonly principals: readonly PrincipalEntry[];
  readonly nowMs: number;
}

type Certificate = Pick<X509Certificate, "subject" | "subjectAltName" | "validFrom" | "validTo">;

/** A connection may outlive the certificate that it began with. */
export function checkCertificate(
  certificate: Certificate,
  { principals, nowMs }: CertificateRule,
): CertificateCheck {
  const refused = (reason: string): CertificateCheck => ({ kind: "refused", reason });
  if (!(nowMs < Date.parse(certificate.validTo))) return refused("its certificate has expired");
  if (!(nowMs >= Date.parse(certificate.validFrom)))
    return refused("the time of its certificate has not come yet");
  const names = new Set(certificateNames(certificate));
  const found = principals.filter((each) => names.has(each.certificate ?? ""));
  const [known, other] = found;
  if (known === undefined)
    return refused("access.principals has no certificate with a name of this one");
  if (other !== undefined)
    return refused(`its certificate has names of ${known.name} and of ${other.name}`);
  return { kind: "known", name: known.name };
}

/** The subject as `CN=ada,O=Example`, in the order of the certificate, then `email:…`, `URI:…`, `DNS:…` and the like. */
export function certificateNames({
  subject,
  subjectAltName = "",
}: Pick<Certificate, "subject" | "subjectAltName">): readonly string[] {
  // A part on each line; commas and line ends in its values are escaped.
  const whole = subject.split("\n").join(",");
  return [...(whole === "" ? [] : [whole]), ...alternativeNames(subjectAltName)];
}

/** A value with a comma, a quote or the like is in quotes, and is the name of no principal. None of a text of another form. */
function alternativeNames(text: string): readonly string[] {
  const names: string[] = [];
  const entry = /([A-Za-z][A-Za-z ]*:)(?:("(?:[^"\\]|\\.)*")|([^",]*))(?:, |$)/y;
  for (let at = 0; at < text.length; at = entry.lastIndex) {
    entry.lastIndex = at;
    const found = entry.exec(text);
    if (found === null) return [];
    const [, kind = "", quoted, plain = ""] = found;
    if (quoted === undefined && plain !== "") names.push(`${kind}${plain}`);
  }
  return names;
}
