/** @file Tasks of an array as people write them. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  checkTaskRanges,
  checkTasksOfFile,
  formatTaskRanges,
  parseTaskRanges,
  withoutSteps,
} from "../../../domain/job/task-ranges.ts";

describe("task ranges", () => {
  it.each([
    ["3", [3]],
    ["3,7-9", [3, 7, 8, 9]],
    [" 9, 3 ,3-4", [3, 4, 9]],
    ["0-0", [0]],
    ["0-9:4", [0, 4, 8]],
    ["1-2:9,2", [1, 2]],
  ])("%j names %j", (text, want) => {
    expect(parseTaskRanges(text, 10)).toEqual({ kind: "read", value: want });
  });

  it.each([
    ["", /"" is no task; write tasks such as 3, 3,7-9 or 0-99:5/],
    ["a", /"a" is no task/],
    ["-1", /"-1" is no task/],
    ["3:2", /"3:2" is no task/],
    ["0-9:0", /0-9:0 has a step of 0; write a step from 1 on/],
    ["0-9%2", /"0-9%2" is no task; write what follows the % as array.parallel/],
    ["9-7", /9-7 ends before it begins; write 7-9/],
    ["10", /there is no task 10; the array has tasks 0 to 9/],
    ["0-999999999", /there is no task 999999999/],
  ])("%j is refused", (text, want) => {
    const read = parseTaskRanges(text, 10);
    expect(read.kind === "refused" && `${read.message}; ${read.remedy}`).toMatch(want);
  });

  it.each([
    ["0-99999:2", 100_000, /50000 tasks written out have \d+ characters/],
    ["0-9,0-9:2", 10, /15 tasks are named of 10/],
    ["0-99:5", 100, undefined],
    ["0-999999", 1_000_000, undefined],
  ])("%j of a file with %d tasks", (text, count, want) => {
    const refusal = checkTasksOfFile(text, count);
    if (want === undefined) expect(refusal).toBeUndefined();
    else expect(refusal?.message).toMatch(want);
  });

  it("of an order may be as many as the array has, however they are written: histories hold such orders", () => {
    const everySecond = Array.from({ length: 10_000 }, (_, at) => 2 * at);
    expect(checkTaskRanges(everySecond.join(","), 20_000)).toBeUndefined();
    expect(checkTaskRanges("0-99999:2", 100_000)).toBeUndefined();
  });

  it.each([
    ["0-9:4,1", "0-1,4,8"],
    ["3,7-9", "3,7-9"],
    ["0-9:0", "0-9:0"],
    ["0-99999:2", "0-99999:2"],
  ])("%j of an order is sent as %j", (text, want) => {
    expect(withoutSteps(text)).toBe(want);
  });

  it("come back as they were", () => {
    fc.assert(
      fc.property(fc.uniqueArray(fc.nat(50), { minLength: 1 }), (some) => {
        const tasks = some.sort((a, b) => a - b);
        expect(parseTaskRanges(formatTaskRanges(tasks), 51)).toEqual({
          kind: "read",
          value: tasks,
        });
      }),
    );
  });
});
