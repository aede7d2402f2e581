/** @file Notes of ended runs are counted once, whichever objects carry them. */

import { expect, it } from "vitest";
import { endedRuns } from "../../console/metrics/ended-runs.ts";
import type { RunNote } from "../../scheduling/ledger/ledger.ts";
import { tenantId } from "../../domain/values/ids.ts";

const note = (endedAtMs: number, of: RunNote["class"] = "training"): RunNote => ({
  class: of,
  tenant: tenantId("vision"),
  gpus: 1,
  submittedAtMs: 0,
  grantedAtMs: 1,
  endedAtMs,
});

it("those behind the ones of before are new", () => {
  const [first, second, third] = [note(2), note(3), note(4)];
  expect(endedRuns(undefined, [first])).toEqual([first]);
  expect(endedRuns([first], [first, second, third])).toEqual([second, third]);
  expect(endedRuns([first, second], [first, second])).toEqual([]);
  expect(endedRuns([first], undefined)).toEqual([]);
});

it("equal ones are those of before, however often they were folded", () => {
  expect(endedRuns([note(2), note(3)], [note(2), note(3), note(4)])).toEqual([note(4)]);
});

it("two runs that ended alike are two", () => {
  expect(endedRuns([note(2)], [note(2), note(2)])).toEqual([note(2)]);
  expect(endedRuns([note(2), note(2)], [note(2), note(2)])).toEqual([]);
});

it("old ones of one class leave before newer ones of others", () => {
  const inference = note(1, "inference");
  expect(endedRuns([inference, note(2), note(3)], [inference, note(3), note(4)])).toEqual([
    note(4),
  ]);
});
