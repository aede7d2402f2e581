/** Text of others on a terminal. */

import fc from "fast-check";
import { stripVTControlCharacters } from "node:util";
import { Writable } from "node:stream";
import { expect, test } from "vitest";
import { coloursFor } from "../../../cli/terminal/colour.ts";
import { errorLine } from "../../../cli/terminal/error-line.ts";
import { safeJson, safeOutput, safeText } from "../../../cli/terminal/safe-text.ts";
import { tableText } from "../../../cli/terminal/table.ts";
import { run } from "../run.ts";

const CASES = [
  { name: "clearing the screen", text: "a\u001b[2Jb", want: "a\\x1b[2Jb" },
  { name: "a title", text: "\u001b]0;root\u0007", want: "\\x1b]0;root\\x07" },
  { name: "a C1 sequence", text: "\u009b31m", want: "\\x9b31m" },
  { name: "a colour of another's", text: "\u001b[31mred\u001b[0m", want: "\\x1b[31mred\\x1b[0m" },
  { name: "a carriage return", text: "failed\rok    ", want: "failed\\rok    " },
  { name: "a backspace", text: "no\b\byes", want: "no\\x08\\x08yes" },
  { name: "reversed text", text: "a\u202egnp.exe", want: "a\\u202egnp.exe" },
  { name: "plain text", text: "é 漢\t字\n🙂", want: "é 漢\t字\n🙂" },
];

test.each(CASES)("$name is shown, not obeyed", ({ text, want }) => {
  expect(safeText(text)).toBe(want);
});

const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/;

test("no text of others brings a control character to the terminal, in whatever pieces", () => {
  const hostile = fc.string({
    unit: fc.constantFrom("\u001b", "[", "3", ";", "m", "\r", "\n", "\u009b", "\u202e", "x"),
  });
  fc.assert(
    fc.property(fc.array(hostile), (pieces) => {
      const safe = safeOutput();
      expect(pieces.map(safe).join("")).not.toMatch(OBEYED);
      expect(safeText(pieces.join(""))).not.toMatch(OBEYED);
    }),
  );
});

test("a progress bar on one line becomes lines, also when a piece ends between return and newline", () => {
  const safe = safeOutput();
  expect([" 10%\r 20%\r", "\n", "done\r", "next"].map(safe).join("")).toBe(
    " 10%\n 20%\ndone\nnext",
  );
});

test("colours of our own stay, at the width of their text", () => {
  const stream = new Writable({ write: () => undefined });
  const colours = coloursFor(stream, { FORCE_COLOR: "1" });
  const table = tableText([{ title: "STATE" }, { title: "X" }], [[colours.red("failed"), "y"]], 80);
  expect(stripVTControlCharacters(table)).toBe("STATE   X\nfailed  y");
  expect(safeText(table)).toContain("\u001b[31mfailed\u001b[39m");
});

test("JSON keeps its meaning and has no control character", () => {
  const value = { name: "\u009b31m\u202e\u001b[2J" };
  const text = safeJson(JSON.stringify(value));
  expect(text).not.toMatch(OBEYED);
  expect(JSON.parse(text)).toEqual(value);
});

test("an error shows the control characters of its message", () => {
  expect(errorLine({ code: "BAD_INPUT", message: "no\u001b[2J", exitCode: 2 })).toBe(
    "error BAD_INPUT: no\\x1b[2J\n",
  );
});

const log = async (words: readonly string[], isTerminal: boolean): Promise<string> => {
  const job = {
    async *logs({ onAttempt }: { readonly onAttempt?: (attempt: object) => void }) {
      onAttempt?.({ attempt: 1, gpus: [] });
      yield "\u001b[31mred\u001b[0m\n";
    },
  };
  const client = { job: () => job };
  const said = await run(["logs", "job-1", ...words], { isTerminal, client: client as object });
  expect(said.code).toBe(0);
  return said.stdout;
};

test("a log is escaped on a terminal, and keeps its bytes with --raw and in a pipe", async () => {
  expect(await log([], true)).toBe("\\x1b[31mred\\x1b[0m\n");
  expect(await log(["--raw"], true)).toBe("\u001b[31mred\u001b[0m\n");
  expect(await log([], false)).toBe("\u001b[31mred\u001b[0m\n");
});
