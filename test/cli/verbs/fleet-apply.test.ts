/** @file `fleet apply --dry-run`: what would change of a fleet, and whom it touches. */

import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { parseFleetYaml } from "../../../domain/fleet/fleet-file.ts";
import type { FleetShape } from "../../../domain/fleet/fleet.ts";
import { hostId, jobId, leaseId, runId, tenantId, token } from "../../../domain/values/ids.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { run } from "../run.ts";

const FLEET = `
clusters:
  - name: eu-1
    site: frankfurt
    jurisdiction: EU
    hosts: [{ name: "h[1-2]", gpus: 4, type: H100 }]
tenants:
  - { name: research, quota: { H100: 6 } }
`;

function shapeOf(text: string): FleetShape {
  const parsed = parseFleetYaml(text, { file: "f", read: () => ({ kind: "missing", reason: "" }) });
  if (parsed.kind === "refused") throw new Error(JSON.stringify(parsed.problems));
  return parsed.fleet.shape;
}

const LEASE = {
  id: leaseId(token(1)),
  token: token(1),
  jobId: jobId("train"),
  runId: runId("r"),
  seq: 1,
  class: "training",
  tenant: tenantId("research"),
  gpus: [{ host: hostId("eu-1", "h2"), mask: 0b111 }],
  grantedAtMs: 0,
  requestedAtMs: 0,
  state: "held",
} as const;
const LEDGER = { ...emptyLedger(shapeOf(FLEET)), leases: new Map([[LEASE.id, LEASE]]) };

/** The fleet has no temporal client, so any attempt to apply something fails. */
function dryRun(text: string, ...more: readonly string[]) {
  const file = join(mkdtempSync(join(tmpdir(), "orbweaver-apply-")), "fleet.yaml");
  writeFileSync(file, text);
  const client = { fleet: () => Promise.resolve(LEDGER) };
  return run(["fleet", "apply", file, "--dry-run", ...more], { client });
}

describe("fleet apply --dry-run", () => {
  it("of the same description changes nothing", async () => {
    expect(await dryRun(FLEET)).toEqual({ code: 0, stdout: "nothing would change\n", stderr: "" });
  });

  it("names jobs on a host that goes, and what a tenant holds of a quota that changes", async () => {
    const { code, stdout } = await dryRun(
      FLEET.replace("h[1-2]", "h[1,3]").replace("H100: 6", "H100: 2"),
    );
    expect(code).toBe(0);
    expect(stdout.split("\n")).toEqual([
      "- host eu-1/h2; used by train, which keep it",
      "+ host eu-1/h3",
      "~ tenant research quota.H100: 6 before, 2 then; holds 3 H100 now",
      "",
    ]);
  });

  it("is one document when asked", async () => {
    const changed = `${FLEET.replace("EU\n", "DE\n")}policy: { aging: 2m }\n`;
    const { stdout } = await dryRun(changed, "--json");
    expect(JSON.parse(stdout)).toMatchObject({
      fleet: "default",
      isApplied: false,
      changes: [
        { change: "changed", what: "cluster", id: "eu-1", path: "jurisdiction", is: '"DE"' },
        { change: "changed", what: "policy", path: "agingMs" },
      ],
    });
  });

  it("refuses a file with problems before anything is asked", async () => {
    const { code, stderr } = await dryRun(FLEET.replace("gpus: 4", "gpus: 0"));
    expect(code).toBe(2);
    expect(stderr).toMatch(/^error BAD_INPUT: .*gpus/);
  });
});
