/** @file The floor of the live figures: its files are frozen, and its process has the product's supervisor, output files and container. */

import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { runSupervised } from "../../bench/floor/supervised-process.ts";
import { findContainment } from "../../agent/system/find-containment.ts";
import { builtNative } from "../agent/fixture.ts";

const FLOOR = join(import.meta.dirname, "../../bench/floor");

/**
 * What is measured beside the floor is tuned after these were written. A floor with the product's own shortcuts goes beside it, never here.
 * Its process has the product's supervisor: the two files that choose and start it changed with the native one and with the starter, and nothing else.
 */
const FROZEN: Readonly<Record<string, string>> = {
  "activities.ts": "6fb1c4555291dbe8e83d7a7d001dc27a1775b93aae1233442c56f68e4751d8a5",
  "floor.ts": "d3a49bb59b839305d11e3adbca1c01a7c66769996de210907ac34e83538d48f9",
  "main.ts": "ddbb86a3e18a45ff3e9d90ade13fba51dccc3909edcf20eb6b014aa80f28ff8b",
  "supervised-process.ts": "48c06795e8d233624341af74da24255846cffa0042617e06b153640b31a687d2",
  "workflows.ts": "191abfdddf61c6c972c7ff9ccd624b13bf660286cec8c258546f832ab399321d",
};

describe("the floor of the live figures", () => {
  const top = mkdtempSync(join(tmpdir(), "orbweaver-floor-"));
  afterAll(() => rmSync(top, { recursive: true, force: true }));

  test("has not changed since it was frozen", () => {
    const now = readdirSync(FLOOR).map((file) => [
      file,
      createHash("sha256")
        .update(readFileSync(join(FLOOR, file)))
        .digest("hex"),
    ]);
    expect(Object.fromEntries(now)).toEqual(FROZEN);
  });

  test.each([
    ["native supervisor", builtNative()],
    ["shim in Node", undefined],
  ])(
    "starts a process under the product's %s and container, and keeps its output and exit status",
    async (of, nativePath) => {
      const containment = findContainment();
      const dir = join(top, of);
      const place = {
        dir,
        nativePath,
        shimPath: join(import.meta.dirname, "../../dist/workers/shim.cjs"),
        containment,
        log: { partBytes: 1_024, parts: 2 },
      };
      const exitCode = await runSupervised(["/bin/sh", "-c", "echo out; exit 7"], place);
      const [launch = ""] = readdirSync(dir);
      const ranks = join(dir, launch, "ranks/0");
      const output = readdirSync(ranks).map((part) => readFileSync(join(ranks, part), "utf8"));
      expect(exitCode).toBe(7);
      expect(output.join("")).toContain("out");
      expect(JSON.parse(readFileSync(join(dir, launch, "container.json"), "utf8"))).toMatchObject({
        kind: containment.kind,
      });
    },
  );
});
