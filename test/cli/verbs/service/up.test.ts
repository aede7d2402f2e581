/** @file `orbweaver up`: what it refuses before it starts anything. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { expect, it } from "vitest";
import { EXIT } from "../../../../cli/terminal/exit-code.ts";
import { run } from "../../run.ts";

it("takes no file's name for a fleet's", async () => {
  const cwd = mkdtempSync(path.join(tmpdir(), "orbweaver-up-"));
  writeFileSync(path.join(cwd, "fleet.yaml"), "clusters: []\n");
  for (const flag of ["--fleet", "--name"]) {
    const { code, stderr } = await run(["up", flag, "fleet.yaml"], { cwd });
    expect(code).toBe(EXIT.usage);
    expect(stderr).toContain("orbweaver up fleet.yaml");
  }
});
