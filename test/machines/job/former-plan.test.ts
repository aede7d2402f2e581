/** @file What the next run of a job knows of the last one: the plan that it had goes into the order for launch extras, its measured step is shown. */

import { expect, test } from "vitest";
import type { LaunchExtrasNote } from "../../../domain/lease/launch-extras.ts";
import { jobView } from "../../../machines/job/job-view.ts";
import { playJob, preemptOrder, type PlayedJob } from "./builders.ts";

const PLANNED = {
  ...{ dataParallel: 4, pipelineParallel: 2, tensorParallel: 1, expertParallel: 1, stepMs: 900 },
};

function begin(played: PlayedJob, seq: number, isPlanned: boolean): void {
  played.feed(played.grant(seq));
  const [asked] = played.open("make-extras");
  if (asked === undefined) throw new Error("no launch extras were asked for");
  const done = { part: "plan", kind: "done", message: "" } as const;
  const note: LaunchExtrasNote = isPlanned ? { ...done, planned: PLANNED } : done;
  const report = { env: {}, files: [], notes: [note] };
  played.answer(asked, { kind: "extras", id: asked.id, report });
}

test("a preempted run's plan is that of the former run in the next order, and stays it when one run had none", () => {
  const played = playJob({ extras: ["plan"] });
  const formers = (): readonly unknown[] =>
    played.commands.flatMap((command) =>
      command.kind === "make-extras" ? [command.order.former ?? null] : [],
    );
  begin(played, 1, true);
  for (const seq of [1, 2]) {
    played.feed(preemptOrder(`lease-${String(seq)}`));
    played.stopped();
    played.ran({ end: "stopped", stepMs: 1000 + seq });
    played.deliver();
    begin(played, seq + 1, false);
  }
  expect(formers()).toEqual([null, PLANNED, PLANNED]);
  const { attempts } = jobView(played.job());
  expect(attempts.map(({ stepMs }) => stepMs)).toEqual([1001, 1002, undefined]);
});
