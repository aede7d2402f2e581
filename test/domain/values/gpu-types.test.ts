/** @file GPU types in files: whole GPUs and instances of MIG, in any case. */
import { describe, expect, it } from "vitest";
import { readGpuType } from "../../../domain/file/file-words.ts";
import { gpuTypeName, isMigType, knownGpuType } from "../../../domain/values/gpu-types.ts";

describe("a type of instances of MIG", () => {
  it.each([
    ["H100:1g.10gb", 10, 100],
    ["H100:3g.40gb", 40, 300],
    ["H100:1c.3g.40gb", 40, 300],
    ["H100:1g.10gb+me", 10, 100],
    ["A100-40:1g.5gb", 5, 58],
  ])("%s has %i GiB and draws %i W", (name, memoryGiB, watts) => {
    expect(knownGpuType(name)).toEqual({ memoryGiB, watts });
    expect(readGpuType(name)).toEqual({ kind: "read", value: name });
    expect(isMigType(name)).toBe(true);
  });

  it("is that type in any case", () => {
    expect(gpuTypeName("h100:1G.10GB")).toBe("H100:1g.10gb");
    expect(gpuTypeName("Mine:1g.5gb")).toBe("Mine:1g.5gb");
    expect(gpuTypeName("h100")).toBe("H100");
    expect(isMigType("H100")).toBe(false);
  });

  it("of a GPU that nobody knows is not known", () => {
    expect(knownGpuType("Mine:1g.5gb")).toBeUndefined();
    expect(knownGpuType("H100:")).toBeUndefined();
  });

  it.each(["H100:", "H100:8g.80gb", "H100:1g", "H100:1g.10gb:x", ":1g.10gb", "H100 1g.10gb"])(
    "is not %s",
    (text) => {
      const read = readGpuType(text);
      expect(read).toMatchObject({ kind: "refused" });
      expect(JSON.stringify(read)).toContain("H100:1g.10gb");
    },
  );
});
