/** @file The plan of a served model that stays is improved while it runs: asked for once, on the solver's terms, and kept out of the run's way. */

import { expect, test } from "vitest";
import type { InferenceFacts } from "../../../domain/model/inference-facts.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import type { LaunchExtrasReport } from "../../../protocol/launch-extras-contract.ts";
import { playJob, type PlayedJob } from "./builders.ts";

const facts = (simulatedMs: number): InferenceFacts => ({
  model: "m",
  host: "alpha/a1",
  expectedMs: simulatedMs,
  simulatedMs,
  againMs: 1,
  oneGpuMs: { series: 40, overlapped: 30 },
  lowerBoundMs: 9,
  speedUp: 2,
  gpus: [],
  buses: [],
  ways: [],
});
const REPORT: LaunchExtrasReport = {
  env: {},
  files: [],
  notes: [{ part: "inference", kind: "done", message: "whole", onGpus: facts(20) }],
  polish: { afterMs: 30_000, limitMs: 60_000 },
};

/** A job that runs since the report came. */
function served(report: LaunchExtrasReport = REPORT): PlayedJob {
  const played = playJob({ extras: ["plan"] });
  played.feed(played.grant(1));
  played.feed({ kind: "extras", id: played.open("make-extras")[0]?.id ?? 0, report });
  expect(played.stage()).toBe("running");
  return played;
}
const shownMs = (played: PlayedJob): number | undefined =>
  jobView(played.job()).attempts.at(-1)?.launchExtras?.[0]?.onGpus?.simulatedMs;

test("a run that stays has its plan improved, once, and shows the answer", () => {
  const played = served();
  const begunMs = played.now();
  while (played.open("polish-plan").length === 0 && played.wait()) continue;
  expect(played.now() - begunMs).toBe(30_000);
  const [asked] = played.open("polish-plan");
  expect(asked?.order).toMatchObject({ limitMs: 60_000, gpus: [{ host: "alpha/a1" }] });
  expect(played.stage()).toBe("running");
  if (asked) played.answer(asked, { kind: "polished", id: asked.id, facts: facts(15) });
  expect(shownMs(played)).toBe(15);
  played.wait();
  expect(played.commands.filter(({ kind }) => kind === "polish-plan")).toHaveLength(1);
});

test("a run that ends before is not asked for", () => {
  const played = served();
  played.ran({});
  while (played.wait()) continue;
  expect(played.commands.filter(({ kind }) => kind === "polish-plan")).toEqual([]);
});

test.each([
  ["no answer", null],
  ["an answer to another question", facts(1)],
])("%s leaves the plan as it is", (_name, answer) => {
  const played = served();
  while (played.open("polish-plan").length === 0 && played.wait()) continue;
  const id = played.open("polish-plan")[0]?.id ?? 0;
  played.feed({ kind: "polished", id: answer === null ? id : id + 1, facts: answer });
  expect(shownMs(played)).toBe(20);
});

test("a report without terms asks for nothing", () => {
  const { polish: _terms, ...report } = REPORT;
  const played = served(report);
  while (played.wait()) continue;
  expect(played.commands.filter(({ kind }) => kind === "polish-plan")).toEqual([]);
});
