/** @file A certificate for 127.0.0.1, made by openssl where that is there. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** In PEM, signed by itself; undefined where there is no openssl. */
export function ownCertificate(): { readonly cert: string; readonly key: string } | undefined {
  const folder = mkdtempSync(join(tmpdir(), "orbweaver-certificate-"));
  const [key, cert] = [join(folder, "key.pem"), join(folder, "cert.pem")];
  const words = `req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj /CN=own -addext subjectAltName=IP:127.0.0.1`;
  try {
    execFileSync("openssl", [...words.split(" "), "-keyout", key, "-out", cert], {
      stdio: "ignore",
    });
    return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
  } catch {
    return undefined;
  } finally {
    rmSync(folder, { recursive: true });
  }
}
