/** @file Every recorded history replays on today's workflow code, without a server. */

import { historyFromJSON } from "@temporalio/common/lib/proto-utils.js";
import type { History } from "@temporalio/common/lib/proto-utils.js";
import { DefaultLogger, Runtime, Worker } from "@temporalio/worker";
import { DeterminismViolationError } from "@temporalio/workflow";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { createConverters } from "../workers/codec/converters.ts";

const FOLDER = path.join(import.meta.dirname, "histories");
const BUNDLE = path.join(import.meta.dirname, "../dist/workflow-bundle.js");
const files = readdirSync(FOLDER).filter((file) => file.endsWith(".json"));

Runtime.install({ logger: new DefaultLogger("ERROR") });

/** By file: how its replay failed; undefined for one that replays. */
const errors = new Map<string, Error | undefined>();

const historyIn = (file: string): History =>
  historyFromJSON(JSON.parse(readFileSync(path.join(FOLDER, file), "utf8")));

/** One worker for all: loading the bundle takes longer than a replay. */
beforeAll(async () => {
  const results = Worker.runReplayHistories(
    { workflowBundle: { codePath: BUNDLE }, dataConverter: createConverters().worker },
    files.map((file) => ({ workflowId: file, history: historyIn(file) })),
  );
  for await (const { workflowId, error } of results) errors.set(workflowId, error);
});

describe("recorded histories", () => {
  it("are there for every workflow type", () => {
    const types = new Set(files.map((file) => file.split(".")[0]));
    expect([...types].sort()).toEqual([
      "bandwidth-model",
      "collective-tuner",
      "cron",
      "fleet",
      "job",
      "link-monitor",
      "lobby",
      "log-session",
      "presence",
      "session",
      "sweep",
    ]);
  });

  it.each([
    ["fleet.stale.json", "stale"],
    ["fleet.repaired.json", "repair"],
    ["fleet.recovering.json", "recover"],
  ])("%s goes by the path of %s", (file, path) => {
    const events = historyIn(file).events ?? [];
    const activities = events.map(
      (each) => each.activityTaskScheduledEventAttributes?.activityType?.name,
    );
    const answers = events.flatMap((each) =>
      (each.markerRecordedEventAttributes?.details?.["result"]?.payloads ?? []).map(({ data }) =>
        Buffer.from(data ?? []).toString(),
      ),
    );
    const isStale = answers.some((answer) => answer.startsWith('{"kind":"stale"'));
    expect(path === "stale" ? isStale : activities.includes(path)).toBe(true);
  });

  it("the tuner's run ends in a task of its own, which a timer begins", () => {
    const events = historyIn("collective-tuner.own-task-end.json").events ?? [];
    const areMarkers = events.map((each) => Boolean(each.markerRecordedEventAttributes));
    const last = events.slice(areMarkers.lastIndexOf(true));
    const ends = last.map((each) => each.timerFiredEventAttributes?.timerId).filter(Boolean);
    expect(ends).toHaveLength(1);
    expect(last.at(-1)?.workflowExecutionContinuedAsNewEventAttributes).toBeTruthy();
  });

  it.each(files)("%s replays", (file) => {
    expect(errors.get(file)).toBeUndefined();
    expect(errors.has(file)).toBe(true);
  });

  it("are told from changed code: a history of a workflow that called another activity does not replay", async () => {
    const history = historyIn("job.two-hosts.json");
    for (const { activityTaskScheduledEventAttributes: scheduled } of history.events ?? []) {
      if (scheduled?.activityType) scheduled.activityType.name = "walk";
    }
    await expect(
      Worker.runReplayHistory({ workflowBundle: { codePath: BUNDLE } }, history),
    ).rejects.toThrow(DeterminismViolationError);
  });
});
