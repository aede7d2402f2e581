/** @file An authority, and certificates of clients that it signs, made by openssl where that is there. */

import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { removeFolder } from "./remove-folder.ts";

export interface Pem {
  readonly cert: string;
  readonly key: string;
}

export interface ClientAuthority {
  readonly ca: string;
  /** `subject`: as `/CN=ada/O=Example`; `extensions`: lines of an extension file. */
  readonly issue: (subject: string, extensions?: readonly string[]) => Pem;
  /** A list with these, in PEM. */
  readonly revoke: (...revoked: readonly Pem[]) => string;
  readonly remove: () => void;
}

/** Undefined where there is no openssl. */
export function clientAuthority(): ClientAuthority | undefined {
  const folder = mkdtempSync(join(tmpdir(), "orbweaver-authority-"));
  const at = (name: string): string => join(folder, name);
  const run = (...words: readonly string[]): void =>
    void execFileSync("openssl", words, { stdio: "ignore" });
  const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const remove = (): void => removeFolder(folder);
  try {
    run(
      ...["req", "-x509", ...newKey, "-days", "2", "-subj", "/CN=authority"],
      ...["-keyout", at("ca.key"), "-out", at("ca.pem")],
    );
  } catch {
    remove();
    return undefined;
  }
  let count = 0;
  return {
    ca: readFileSync(at("ca.pem"), "utf8"),
    issue(subject, extensions = []) {
      const name = String((count += 1));
      const [key, asked, cert] = ["key", "csr", "pem"].map((end) => at(`${name}.${end}`));
      if (key === undefined || asked === undefined || cert === undefined) throw new Error("none");
      writeFileSync(at(`${name}.ext`), [...extensions, ""].join("\n"));
      run("req", "-new", ...newKey, "-utf8", "-subj", subject, "-keyout", key, "-out", asked);
      run(
        ...["x509", "-req", "-in", asked, "-CA", at("ca.pem"), "-CAkey", at("ca.key")],
        ...["-set_serial", String(count), "-days", "2", "-extfile", at(`${name}.ext`)],
        ...["-out", cert],
      );
      return { cert: readFileSync(cert, "utf8"), key: readFileSync(key, "utf8") };
    },
    revoke(...revoked) {
      writeFileSync(at("index"), "");
      writeFileSync(at("number"), "01\n");
      const settings = `[ca]\ndefault_ca=own\n[own]\ndatabase=${at("index")}\ncrlnumber=${at("number")}\ndefault_md=sha256\n`;
      writeFileSync(at("ca.cnf"), settings);
      const by = ["-config", at("ca.cnf"), "-cert", at("ca.pem"), "-keyfile", at("ca.key")];
      for (const { cert } of revoked) {
        writeFileSync(at("revoked.pem"), cert);
        run("ca", ...by, "-revoke", at("revoked.pem"));
      }
      run("ca", ...by, "-gencrl", "-crldays", "2", "-out", at("crl.pem"));
      return readFileSync(at("crl.pem"), "utf8");
    },
    remove,
  };
}
