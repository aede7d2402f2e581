/** @file Answers questions about a lobby from its state: where a job stands, and the summary in Temporal's UI. */

import { JOB_CLASSES } from "../../domain/job/job.ts";
import { byCall } from "../../domain/lease/lobby-order.ts";
import type { LobbyPlace, LobbyQuestion, LobbyRows } from "../../protocol/lobby.ts";
import { isFields } from "../../lib/fields.ts";
import { totalOf, waitingByClass, type Lobby } from "./lobby-state.ts";
import { placeIn, waitingIn } from "./queue.ts";

/** Null when nobody of the class waits. A job whose row lies in the store counts as one of the first round. */
export function lobbyPlace({ queues }: Lobby, question: LobbyQuestion): LobbyPlace | null {
  const name = isFields(question) ? JOB_CLASSES.find((each) => each === question.class) : undefined;
  if (name === undefined) return null;
  const queue = queues[name];
  const waiting = waitingIn(queue);
  if (waiting === 0) return null;
  const { jobId, priority, submittedAtMs } = question;
  const row = queue.rows.find((each) => each.jobId === jobId);
  const order = row ?? { round: 0, priority, submittedAtMs, jobId };
  const isExact =
    row !== undefined && [...queue.runs].every(({ bound }) => byCall(order, bound) <= 0);
  return { place: Math.min(waiting, placeIn(queue, order) + 1), isExact, waiting };
}

export function lobbyRows({ queues }: Lobby): LobbyRows {
  const all = JOB_CLASSES.map((name) => queues[name]);
  return {
    jobs: all.flatMap(({ rows, leaving }) => [...rows, ...leaving].map(({ jobId }) => jobId)),
    runs: all.flatMap(({ runs }) =>
      runs.map(({ directory, at, count }) => ({ directory, at, count })),
    ),
  };
}

/** Markdown. */
export function lobbySummary(lobby: Lobby): string {
  const waiting = waitingByClass(lobby);
  const stored = JOB_CLASSES.reduce((sum, name) => sum + lobby.queues[name].runs.length, 0);
  return [
    `**Lobby of tenant ${lobby.tenant}** at fleet ${lobby.fleet}: ${totalOf(waiting)} jobs wait outside`,
    "",
    JOB_CLASSES.map((name) => `${name} ${waiting[name]}`).join(" · "),
    "",
    `${lobby.called.size} were called in lately · ${stored} sorted lists in the store`,
  ].join("\n");
}
