/**
 * @file Ends a run at once, with the reason, whose input has not the form that its type reads. An interceptor of all workflows; it issues no other command.
 *
 * What a run has handed to the next one is not looked at: it may have the form of another release, whose worker takes the task that fails. Nor is what this worker cannot read for want of a
 * key or a codec: another one may have it. Where a run has a cron of the server's, as none of ours has, the server starts each next one with the input of the first.
 */

import {
  ApplicationFailure,
  workflowInfo,
  type WorkflowInterceptorsFactory,
} from "@temporalio/workflow";
import { isUnreadable } from "../../protocol/unreadable.ts";
import { inputProblem } from "../../protocol/workflow-inputs.ts";
import { JSON_ENCODING, type Unreadable } from "./payload-converter.ts";

export const interceptors: WorkflowInterceptorsFactory = () => ({
  inbound: [
    {
      async execute(input, next) {
        const { workflowType, continuedFromExecutionRunId, cronSchedule } = workflowInfo();
        const [given] = input.args;
        const isHandedOn = continuedFromExecutionRunId !== undefined && cronSchedule === undefined;
        const isRead = !isHandedOn && !isOfAnotherCodec(given);
        const problem = isRead ? inputProblem(workflowType, given) : undefined;
        if (problem !== undefined) throw ApplicationFailure.nonRetryable(problem, "BAD_INPUT");
        return await next(input);
      },
    },
  ],
});

const isOfAnotherCodec = (given: unknown): boolean =>
  isUnreadable(given) && (given as Unreadable).encoding !== JSON_ENCODING;
