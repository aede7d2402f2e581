/** @file Comma-separated values that a spreadsheet opens. */

import { expect, it } from "vitest";
import { csvText } from "../../../cli/terminal/csv-text.ts";

it("gives text that looks like a formula an apostrophe, and leaves numbers and single signs alone", () => {
  const cells = ["=1+2", "+a", "-b", "@sum", "-4.5", "+3", "-", "a=b", '=x,"y"'];
  expect(csvText([cells])).toBe(`'=1+2,'+a,'-b,'@sum,-4.5,+3,-,a=b,"'=x,""y"""`);
});
