/** The supply chain: each package of the lockfile has a hash and a licence, and the bill of materials names them all. */

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, test } from "vitest";
import { faultsOf, packagesOf, readLock } from "../../tools/supply-chain.mjs";

const ROOT = join(import.meta.dirname, "../..");
const HASH = `sha512-${"A".repeat(86)}==`;

test("every package of the lockfile has a sha512 hash and a licence", () => {
  const lock = readLock();
  expect(faultsOf(lock)).toEqual([]);
  expect(packagesOf(lock).length).toBeGreaterThan(300);
});

const FAULTS = [
  { name: "no hash", entry: { license: "MIT" }, wantFault: "has no sha512 hash" },
  {
    name: "a weak hash",
    entry: { license: "MIT", integrity: "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk=" },
    wantFault: "has no sha512 hash",
  },
  { name: "no licence", entry: { integrity: HASH }, wantFault: "states no licence" },
  {
    name: "an address",
    entry: { license: "MIT", integrity: HASH, resolved: "https://registry.example/a.tgz" },
    wantFault: "names a registry",
  },
];

test.each(FAULTS)("a package with $name is a fault", ({ entry, wantFault }) => {
  const place = "node_modules/x/node_modules/@scope/a";
  const faults = faultsOf({ packages: { "": {}, [place]: { version: "1.0.0", ...entry } } });
  expect(faults).toHaveLength(1);
  expect(faults[0]).toContain(`${place} (@scope/a@1.0.0) ${wantFault}`);
});

test("a package with a hash and a licence is none", () => {
  const entry = { version: "1.0.0", license: "MIT", integrity: HASH };
  expect(faultsOf({ packages: { "node_modules/a": entry } })).toEqual([]);
});

interface Bill {
  readonly specVersion: string;
  readonly components: readonly {
    readonly purl: string;
    readonly licenses?: readonly unknown[];
    readonly hashes?: readonly { readonly content: string }[];
  }[];
}

test("the bill of materials names each package once, with its hash and licence, and the server's modules", () => {
  const text = execFileSync(process.execPath, [join(ROOT, "tools/sbom.mjs")], {
    encoding: "utf8",
    maxBuffer: 1 << 26,
  });
  const bill = JSON.parse(text) as Bill;
  expect(bill.specVersion).toBe("1.5");
  const urls = bill.components.map(({ purl }) => purl);
  expect(new Set(urls).size).toBe(urls.length);
  const npm = bill.components.filter(({ purl }) => purl.startsWith("pkg:npm/"));
  const want = new Set(packagesOf(readLock()).map(({ name, version }) => `${name}@${version}`));
  expect(npm).toHaveLength(want.size);
  for (const { hashes, licenses } of npm) {
    expect(hashes?.[0]?.content).toMatch(/^[0-9a-f]{128}$/);
    expect(licenses).toHaveLength(1);
  }
  expect(urls.some((url) => url.startsWith("pkg:golang/go.temporal.io/server@"))).toBe(true);
});
