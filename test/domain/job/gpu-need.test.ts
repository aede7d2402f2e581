/** @file What scheduling reads of `resources`: for each GPU, of a total by the smallest gang that the job accepts. */
import { expect, test } from "vitest";
import { scheduledPart } from "../../../domain/lease/gang-request.ts";
import { SMALL_JOB, specOf } from "../job-text.ts";

test.each<{ what: string; more: object; want: object | undefined }>([
  { what: "nothing", more: {}, want: undefined },
  {
    what: "amounts for each GPU",
    more: { gang: 4, resources: { perGpu: { cpus: 8, memory: "64 GiB" } } },
    want: { cpus: 8, memoryGiB: 64 },
  },
  {
    what: "a total of a rigid gang",
    more: { gang: 4, resources: { total: { memory: "64 GiB" } } },
    want: { memoryGiB: 16 },
  },
  {
    what: "a total of a gang that accepts less",
    more: { gang: { gpus: 4, min: 2, timeout: "1m" }, resources: { total: { cpus: 8 } } },
    want: { cpus: 4 },
  },
  {
    what: "a total of each task of an array",
    more: { gang: 2, array: { count: 5, parallel: 3 }, resources: { total: { cpus: 8 } } },
    want: { cpus: 4 },
  },
])("a job that states $what", ({ more, want }) => {
  const spec = specOf({ ...SMALL_JOB, ...more });
  expect(scheduledPart(spec).constraints.resources).toEqual(want);
  expect(spec.constraints.resources).toBeUndefined();
});
