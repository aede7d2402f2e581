/** @file Changes of a job's settings: what comes out, and what is refused. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { amendSpec, readChanges } from "../../../domain/job/amendment.ts";
import { tenantId } from "../../../domain/values/ids.ts";
import { ms } from "../../../domain/values/units.ts";
import { specOf } from "../job-text.ts";

const spec = (more: object = {}) =>
  specOf({ name: "changed", gang: 8, run: { command: ["true"] }, ...more });

describe("an amendment", () => {
  it.each([
    [{ priority: 5 }, [{ setting: "priority", before: 0, after: 5 }]],
    [{ tenant: tenantId("vision") }, [{ setting: "tenant", before: "default", after: "vision" }]],
    [{ timeLimitMs: ms(60_000) }, [{ setting: "timeLimitMs", after: 60_000 }]],
    [{ deadlineMs: ms(60_000) }, [{ setting: "deadlineMs", after: 60_000 }]],
    [{ min: 4 }, [{ setting: "min", before: 8, after: 4 }]],
    [
      { max: 4 },
      [
        { setting: "min", before: 8, after: 4 },
        { setting: "max", before: 8, after: 4 },
      ],
    ],
    [{ priority: 0 }, []],
  ])("%j changes what it names", (changes, wantChanges) => {
    expect(amendSpec(spec(), changes)).toMatchObject({ kind: "amended", changes: wantChanges });
  });

  it("of a gang keeps the shapes that still fit, and their smallest as the least size", () => {
    const former = spec({ gang: { gpus: 8, shapes: [4, 2, 1] } });
    const changed = amendSpec(former, { min: 2, max: 4 });
    expect(changed).toMatchObject({ spec: { gang: { gpus: 4, min: 2, shapes: [2] } } });
  });

  it("is refused for a gang that would be larger than itself, and for the size of an array's tasks", () => {
    expect(amendSpec(spec(), { min: 9 }).kind).toBe("refused");
    expect(amendSpec(spec({ gang: { gpus: 8, min: 4 } }), { max: 2 }).kind).toBe("refused");
    expect(amendSpec(spec({ array: { count: 3 } }), { max: 2 }).kind).toBe("refused");
  });

  it("leaves a gang that holds together, whatever is asked for", () => {
    const size = fc.option(fc.integer({ min: 1, max: 32 }), { nil: undefined });
    fc.assert(
      fc.property(size, size, fc.subarray([6, 4, 2, 1], { minLength: 1 }), (min, max, shapes) => {
        const changes = {
          ...(min !== undefined && { min }),
          ...(max !== undefined && { max }),
        };
        const made = amendSpec(spec({ gang: { gpus: 8, shapes } }), changes);
        if (made.kind === "refused") return;
        const { gpus, min: least, shapes: kept = [] } = made.spec.gang;
        expect(least).toBeLessThanOrEqual(gpus);
        expect(kept.every((shape) => shape >= least && shape < gpus)).toBe(true);
      }),
    );
  });
});

describe("changes in a message", () => {
  it.each([
    undefined,
    null,
    7,
    { priority: 1_001 },
    { priority: 0.5 },
    { min: 0 },
    { max: "8" },
    { timeLimitMs: -1 },
    { deadlineMs: Number.NaN },
    { tenant: "two words" },
    { tenant: 7 },
    { command: ["rm"] },
  ])("%j are no changes", (value) => {
    expect(readChanges(value)).toHaveProperty("problem");
  });

  it("are read as they are", () => {
    const changes = { priority: -3, tenant: "vision", min: 1, max: 2, timeLimitMs: 5 };
    expect(readChanges(changes)).toEqual({ changes });
  });
});
