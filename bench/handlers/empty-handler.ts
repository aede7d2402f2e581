/** @file The rival: a workflow whose only handler does nothing. Bundled on its own, without the product's interceptors. */

import { condition, defineSignal, setHandler } from "@temporalio/workflow";

export async function emptyHandler(): Promise<void> {
  setHandler(defineSignal<[unknown]>("inbox"), () => undefined);
  await condition(() => false);
}
