/** @file What the commands of a job array become in a world, as `workflows/array/job-array.ts` carries them out. No activity is local. */

import type { ArrayCommand, ArrayEvent } from "../../machines/array/array-state.ts";
import { stopFailed } from "../../machines/array/task-stops.ts";
import { othersWait } from "../../machines/fleet/view.ts";
import type { StopTasksReport } from "../../protocol/agent-contract.ts";
import { stopTasksOn } from "../hosts/agent-batches.ts";
import { carryOutGang, type GangPorts } from "./gang.ts";
import type { JobRun } from "./job-life.ts";
import { leaveLobby } from "./lobby.ts";
import { ask } from "./questions.ts";
import { askFleet } from "./site.ts";

export function carryOutArray(ports: GangPorts, command: ArrayCommand, run: JobRun): void {
  const { site, agents } = ports;
  const answer = (event: ArrayEvent): void =>
    run.arrive({ kind: "event", event: { kind: "of array", event } });
  switch (command.kind) {
    case "tell":
      return ask(site, run, function* (process) {
        const { fleetWorkflowId, entry, exit, id } = command;
        const result = yield* site.tellFleet(process, fleetWorkflowId, entry);
        if (result === undefined) return undefined;
        if (exit !== undefined) yield* leaveLobby(site, process, exit);
        return () => answer({ kind: "told", id, result });
      });
    case "leave-lobby":
      return ask(site, run, function* (process) {
        yield* leaveLobby(site, process, command.exit);
        return () => answer({ kind: "told", id: command.id, result: { kind: "delivered" } });
      });
    case "ask-others":
      return ask(site, run, function* (process) {
        const { fleetWorkflowId: fleet, jobId, id } = command;
        const found = yield* askFleet(site, process, {
          fleet,
          question: ({ ledger }) => othersWait(ledger, jobId),
        });
        // One try alone: nobody waits where the fleet does not answer.
        return () =>
          answer({ kind: "others-wait", id, doWait: found.kind === "answer" && found.value });
      });
    case "stop-tasks":
      site.activity<StopTasksReport>(run, {
        queue: command.agent.orderQueue,
        name: `stop tasks of ${command.order.leaseId}`,
        startToCloseMs: command.startToCloseMs,
        scheduleToStartMs: 30_000,
        maxAttempts: 3,
        body: () => stopTasksOn(agents, command.order),
        // The end of the batch says what became of the tasks.
        onEnd: ({ kind }) => {
          if (kind !== "done") answer(stopFailed(command));
        },
      });
      return undefined;
    case "gang":
      return carryOutGang(ports, command.command, {
        run,
        answer: (event) => answer({ kind: "gang", lease: command.lease, answer: event }),
      });
    default:
      return undefined;
  }
}
