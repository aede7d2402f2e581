/** @file What waiting requests claim of their tenant's quota: once for each job, and never against themselves. */

import { describe, expect, it } from "vitest";
import type { JobId, TenantId } from "../../../domain/values/ids.ts";
import {
  claimQuota,
  dropClaims,
  quotaClaim,
  type Claims,
} from "../../../scheduling/admission/quota-claims.ts";

const TENANT = "research" as TenantId;
const claimant = (name: string) => ({ jobId: name as JobId, tenant: TENANT });

describe("claims on a quota", () => {
  it("add up over jobs, and name them", () => {
    const claims: Claims = new Map();
    claimQuota(claims, claimant("a"), new Map([["H100", 8]]));
    claimQuota(claims, claimant("b"), new Map([["H100", 4]]));
    expect(quotaClaim(claims, TENANT, "H100")).toEqual({ gpus: 12, jobs: ["a", "b"] });
    expect(quotaClaim(claims, TENANT, "A100")).toEqual({ gpus: 0, jobs: [] });
  });

  it("count once for a job that claims in each pass through the line", () => {
    const claims: Claims = new Map();
    for (const gpus of [8, 8, 4]) claimQuota(claims, claimant("a"), new Map([["H100", gpus]]));
    expect(quotaClaim(claims, TENANT, "H100")).toEqual({ gpus: 4, jobs: ["a"] });
  });

  it("of a job whose turn it is count no more, nor does its tenant's name stay behind", () => {
    const claims: Claims = new Map();
    const wanted = new Map([
      ["H100", 8],
      ["*", 2],
    ]);
    claimQuota(claims, claimant("a"), wanted);
    claimQuota(claims, claimant("b"), new Map([["*", 1]]));
    dropClaims(claims, claimant("a"));
    expect(quotaClaim(claims, TENANT, "H100").gpus).toBe(0);
    expect(quotaClaim(claims, TENANT, "*").gpus).toBe(1);
    dropClaims(claims, claimant("b"));
    expect(claims.size).toBe(0);
  });
});
