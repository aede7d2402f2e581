import { describe, expect, it } from "vitest";
import { needText } from "../../../domain/job/job-resources.ts";
import { gib } from "../../../domain/values/units.ts";
import { problemsOf, SMALL_JOB, specOf } from "../job-text.ts";

const spec = (resources: unknown) => specOf({ ...SMALL_JOB, resources }).run.resources;

describe("resources of a job", () => {
  it("are for each GPU, or for all of them", () => {
    expect(spec({ perGpu: { cpus: 1.5, memory: "64 GiB" } })).toEqual({
      per: "gpu",
      cpus: 1.5,
      memoryGiB: 64,
    });
    expect(spec({ total: { memory: "0.5 GiB" } })).toEqual({ per: "total", memoryGiB: 0.5 });
    expect(specOf(SMALL_JOB).run).not.toHaveProperty("resources");
  });

  it.each([
    ["both", { perGpu: { cpus: 1 }, total: { cpus: 8 } }, "perGpu and total are both given"],
    ["neither", {}, "no amount is named"],
    ["one without an amount", { perGpu: {} }, "no amount is named"],
    ["no processors", { perGpu: { cpus: 0 } }, "0"],
    ["a bare number of memory", { perGpu: { memory: 64 } }, "64"],
  ])("are refused with %s", (_, resources, want) => {
    const problems = problemsOf({ ...SMALL_JOB, resources });
    expect(problems).toHaveLength(1);
    expect(JSON.stringify(problems)).toContain(want);
  });

  it("are told as they were asked for", () => {
    expect(needText({ per: "gpu", cpus: 8, memoryGiB: gib(64) })).toBe(
      "8 CPUs and 64 GiB for each GPU",
    );
    expect(needText({ per: "total", memoryGiB: gib(0.25) })).toBe("256 MiB in all");
  });
});
