import { expect, test } from "vitest";
import { progressLine, progressPrinter } from "../../../workers/server/progress.ts";
import type { Progress } from "../../../workers/server/progress.ts";

const FAILED: Progress = { step: "download", state: "failed", detail: "", reason: "HTTP 403" };
const BUILDING: Progress = { step: "build", state: "trying", detail: "compiled 1" };
const BUILT: Progress = { step: "build", state: "ok", detail: "/c/temporal" };

const LINES = [
  { event: FAILED, want: "the download: failed: HTTP 403; next: a build from source" },
  { event: BUILDING, want: "a build from source: compiled 1" },
  { event: BUILT, want: "a build from source: ok, /c/temporal" },
  {
    event: { ...FAILED, step: "build" } as const,
    want: "a build from source: failed: HTTP 403; no further way to try",
  },
];

test.each(LINES)("$event.step $event.state reads as one line", ({ event, want }) => {
  expect(progressLine(event)).toBe(`temporal server: ${want}`);
});

test("a log gets a running way when it opens and then four times a minute", () => {
  const written: string[] = [];
  let nowMs = 0;
  const print = progressPrinter({ write: (text) => written.push(text) }, () => nowMs);
  print(FAILED);
  for (nowMs = 0; nowMs < 30_000; nowMs += 1_000) print(BUILDING);
  print(BUILT);
  expect(written.map((line) => line.includes("compiled"))).toEqual([false, true, true, false]);
});

test("a terminal gets the running way redrawn in place, never longer than a row", () => {
  const written: string[] = [];
  const print = progressPrinter({ isTTY: true, columns: 30, write: (text) => written.push(text) });
  print(BUILDING);
  print(BUILT);
  expect(written).toEqual([
    "\r\u001b[Ktemporal server: a build from",
    "\r\u001b[Ktemporal server: a build from source: ok, /c/temporal\n",
  ]);
});
