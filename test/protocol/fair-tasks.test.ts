import { describe, expect, it } from "vitest";
import { OWN_PRIORITY, tenantPriority } from "../../protocol/fair-tasks.ts";

describe("the fairness key of a tenant", () => {
  it.each(["research", "a", "x".repeat(64)])("is its name: %s", (tenant) => {
    expect(tenantPriority(tenant)).toEqual({ fairnessKey: tenant });
  });

  it("of a longer name has 64 bytes, and another one for another name", () => {
    const [one, other] = ["1", "2"].map((end) => tenantPriority(`${"x".repeat(99)}${end}`));
    expect(one?.fairnessKey).toHaveLength(64);
    expect(other?.fairnessKey).toHaveLength(64);
    expect(one).not.toEqual(other);
  });

  it("is never the key of our own workflows, whose colon no tenant has", () => {
    expect(OWN_PRIORITY.fairnessKey).toContain(":");
  });
});
