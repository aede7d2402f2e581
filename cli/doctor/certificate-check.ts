/** @file What can be wrong with the client certificate by which verbs ask a submit service. */

import { createPrivateKey, X509Certificate } from "node:crypto";
import { statSync } from "node:fs";
import { resolve } from "node:path";
import { certificateNames } from "../../access/certificate.ts";
import type { Environment } from "../../workers/server/environment.ts";
import { CERT_FILE, clientCertificate, KEY_FILE } from "../command/service-session.ts";
import { checked, ok, problem, warning, type Finding } from "./finding.ts";

const CHECK = "client certificate";
const DAY_MS = 86_400_000;
const SOON_MS = 14 * DAY_MS;
const OTHERS = 0o077;
const REMEDY = `name the certificate and its key in ${CERT_FILE} and ${KEY_FILE}, in PEM`;

/** None where no certificate is named. */
export function certificateChecks(env: Environment, nowMs: number): readonly Promise<Finding>[] {
  const isNamed = [env[CERT_FILE], env[KEY_FILE]].some((file = "") => file !== "");
  return isNamed ? [checked(CHECK, REMEDY, () => looked(env, nowMs))] : [];
}

function looked(env: Environment, nowMs: number): Finding {
  const found = clientCertificate({ env, cwd: process.cwd() });
  if (found === undefined) return ok(CHECK, "none");
  const certificate = new X509Certificate(found.cert);
  const names = certificateNames(certificate).join("; ");
  if (!certificate.checkPrivateKey(createPrivateKey(found.key)))
    return problem(CHECK, `the key is not that of ${names}`, REMEDY);
  const leftMs = Date.parse(certificate.validTo) - nowMs;
  if (leftMs <= 0)
    return problem(CHECK, `${names} expired at ${certificate.validTo}`, "have it made anew");
  const keyFile = resolve(env[KEY_FILE] ?? "");
  if ((statSync(keyFile).mode & OTHERS) !== 0)
    return problem(CHECK, `other users may read ${keyFile}`, `chmod go= ${keyFile}`);
  const days = Math.floor(leftMs / DAY_MS);
  return leftMs < SOON_MS
    ? warning(CHECK, `${names} expires in ${String(days)} days`, "have it made anew")
    : ok(CHECK, `${names}, for ${String(days)} days more`);
}
