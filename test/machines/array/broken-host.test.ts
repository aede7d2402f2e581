/** @file A task of an array over several hosts of which one is lost, as by a broken GPU: what fails of it on the others is not charged. */

import { expect, it } from "vitest";
import { FAULTED_TASK_RULES, JOB_RULES } from "../../../protocol/control-contract.ts";
import { grantOf, grants, playArray } from "./builders.ts";

it.each([
  { rules: JOB_RULES, lostAfterMs: -5, isCharged: false },
  { rules: JOB_RULES, lostAfterMs: 11, isCharged: true },
  { rules: FAULTED_TASK_RULES - 1, lostAfterMs: -5, isCharged: true },
])(
  "under rules $rules charges a task that fails on one host, where another was lost $lostAfterMs ms after its start: $isCharged",
  ({ rules, lostAfterMs, isCharged }) => {
    const played = playArray({ count: 1, file: { gang: 2 }, entry: { rules } });
    played.feed(grants(grantOf(1, { slots: 1, hosts: ["a", "b"] })));
    const [sound, broken] = played.gang("run");
    if (sound === undefined || broken === undefined) throw new Error("nothing runs");
    const atMs = played.now() + lostAfterMs;
    played.ran(() => ({ end: "failed", exitCode: 3 }), sound);
    const report = played.reportOf(broken, () => ({ end: "stopped" }));
    const cause = { code: "HOST_LOST", message: "a GPU broke", atMs } as const;
    played.notRun({ kind: "reported", report: { ...report, end: "failed", cause } }, broken);
    played.stopped();
    const { counts } = played.view().array ?? {};
    expect(counts).toMatchObject(isCharged ? { failed: 1 } : { failed: 0, waiting: 1 });
  },
);
