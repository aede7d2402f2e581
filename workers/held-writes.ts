/** @file Holds back what a client tells workflows until its server is known to be the right one; what only reads goes before. */

import type { WorkflowClientInterceptor } from "@temporalio/client";

/** A question that nobody answers at once starts a workflow, to wake workers (`client/waking.ts`). Where `ready` fails, what was held back fails so. */
export function heldWrites(ready: () => Promise<void>): WorkflowClientInterceptor {
  const held = async <Input, Output>(
    input: Input,
    next: (input: Input) => Promise<Output>,
  ): Promise<Output> => {
    await ready();
    return await next(input);
  };
  return {
    ...{ startWithDetails: held, signal: held, signalWithStart: held },
    ...{ startUpdate: held, startUpdateWithStart: held, terminate: held, cancel: held },
  };
}
