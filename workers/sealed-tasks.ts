/**
 * @file Activities that a control plane's worker with keys does not carry out: those whose arguments came in the open, were lifted from another workflow, or are
 * asked for by a run whose own input came so.
 *
 * Such a worker signs what its activities say, for whoever has them scheduled. The arguments of an activity are new whenever it is scheduled, so this refuses no
 * history. Those of local activities never leave the worker. What was scheduled before the key file was written is carried out, as `sealProblem` has it.
 */

import type { ActivityExecuteInput, ActivityInterceptorsFactory } from "@temporalio/worker";
import { ApplicationFailure, defaultPayloadConverter, type PayloadCodec } from "@temporalio/common";
import {
  flawOf,
  INPUT_FLAW_HEADER,
  sealProblem,
  type CameFlawed,
  type KeysInUse,
  type SealFlaw,
} from "../protocol/seal.ts";
import type { RefusedTask } from "./refused-tasks.ts";

export interface SealedTasks {
  /** Sees what the others have decoded: the first of a worker's codecs. */
  readonly witness: PayloadCodec;
  readonly interceptors: readonly ActivityInterceptorsFactory[];
}

/** Flaws of tasks that have not begun. The answers that workflows get pass the witness, too, and are asked for by nobody. */
const MOST_NOTED = 1_000;

/** `onRefused`: with the workflow that asked, the activity, and why. */
export function sealedTasks(keys: KeysInUse, onRefused: (task: RefusedTask) => void): SealedTasks {
  const flaws = new Map<string, SealFlaw>();
  const note = (id: string, flaw: SealFlaw | undefined): void => {
    flaws.delete(id);
    if (flaw === undefined) return;
    flaws.set(id, flaw);
    const [oldest] = flaws.keys();
    if (flaws.size > MOST_NOTED && oldest !== undefined) flaws.delete(oldest);
  };
  const inspect: ActivityInterceptorsFactory = ({ info }) => ({
    inbound: {
      execute: async (input, next) => {
        const refuse = (what: string, problem: string | undefined): void => {
          if (problem === undefined) return;
          const why = `${what} is refused: ${problem}`;
          const sender = info.workflowExecution?.workflowId ?? "no workflow";
          onRefused({ sender, order: info.activityType, why });
          throw ApplicationFailure.nonRetryable(why, "NOT_ALLOWED");
        };
        const id = idOf(info.workflowExecution?.workflowId, info.activityId);
        const flaw = info.isLocal ? undefined : flaws.get(id);
        if (!info.isLocal) flaws.delete(id);
        refuse("what it asks", sealProblem(keys, flaw, { atMs: info.scheduledTimestampMs }));
        const came = inputFlaw(input);
        refuse("the input of its workflow", sealProblem(keys, came?.flaw, came));
        return await next(input);
      },
    },
  });
  return {
    witness: {
      encode: async (payloads) => await Promise.resolve(payloads),
      decode: async (payloads, context) => {
        if (context?.type === "activity" && !context.isLocal)
          note(idOf(context.workflowId, context.activityId), flawOf(payloads));
        return await Promise.resolve(payloads);
      },
    },
    interceptors: [inspect],
  };
}

const idOf = (workflowId = "", activityId = ""): string => `${activityId} of ${workflowId}`;

/** As the workflow's own worker has written it. */
function inputFlaw({ headers }: Pick<ActivityExecuteInput, "headers">): CameFlawed | undefined {
  const header = headers[INPUT_FLAW_HEADER];
  return header && defaultPayloadConverter.fromPayload<CameFlawed>(header);
}
