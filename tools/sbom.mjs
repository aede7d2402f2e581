/**
 * @file The software bill of materials, as CycloneDX 1.5 JSON on standard output: `npm run --silent sbom`.
 *
 * From the lockfile and the pinned Go modules of the Temporal server alone, so it needs no network and no installed packages, and
 * gives the same bytes for the same clone. `--production` leaves out what only development needs.
 */

import { readFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { packagesOf, readLock } from "./supply-chain.mjs";

const ROOT = path.resolve(path.dirname(fileURLToPath(import.meta.url)), "..");

/** An expression of licences has operators; a single licence has an SPDX id or, where it is none, a name. */
const licenceOf = (text) => {
  if (/ (AND|OR|WITH) /.test(text)) return { expression: text };
  return { license: /^[A-Za-z0-9.+-]+$/.test(text) ? { id: text } : { name: text } };
};

const hexOf = (integrity) =>
  Buffer.from(integrity.slice(integrity.indexOf("-") + 1), "base64").toString("hex");

/** `pkg:npm/%40scope/name@1.2.3` */
const npmUrl = (name, version) =>
  `pkg:npm/${name.replace("@", "%40")}@${encodeURIComponent(version)}`;

function npmComponents(isProduction) {
  const byUrl = new Map();
  for (const entry of packagesOf(readLock())) {
    if (isProduction && entry.dev === true) continue;
    const url = npmUrl(entry.name, entry.version);
    byUrl.set(url, {
      type: "library",
      "bom-ref": url,
      name: entry.name,
      version: entry.version,
      scope: entry.dev === true ? "excluded" : entry.optional === true ? "optional" : "required",
      hashes: [{ alg: "SHA-512", content: hexOf(entry.integrity) }],
      licenses: [licenceOf(entry.licence)],
      purl: url,
    });
  }
  return [...byUrl.values()];
}

/** The modules that the embedded Temporal server is built from, with the `h1` sums that Go checks. */
function goComponents() {
  const sums = readFileSync(path.join(ROOT, "tools", "temporal-server", "go.sum"), "utf8");
  return Array.from(sums.matchAll(/^(\S+) (v\S+) (h1:\S+)$/gm), ([, name, version, sum]) => {
    if (version.endsWith("/go.mod")) return [];
    const url = `pkg:golang/${name}@${version}`;
    return {
      type: "library",
      "bom-ref": url,
      name,
      version,
      scope: "optional",
      purl: url,
      properties: [{ name: "go:sum", value: sum }],
    };
  }).flat();
}

export function billOfMaterials({ isProduction = false } = {}) {
  const { name, version, license } = JSON.parse(
    readFileSync(path.join(ROOT, "package.json"), "utf8"),
  );
  const components = [...npmComponents(isProduction), ...goComponents()];
  components.sort((a, b) => (a.purl < b.purl ? -1 : a.purl > b.purl ? 1 : 0));
  return {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    version: 1,
    metadata: {
      component: {
        type: "application",
        "bom-ref": npmUrl(name, version),
        name,
        version,
        licenses: [licenceOf(license)],
        purl: npmUrl(name, version),
      },
    },
    components,
  };
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const isProduction = process.argv.includes("--production");
  process.stdout.write(`${JSON.stringify(billOfMaterials({ isProduction }), null, 2)}\n`);
}
