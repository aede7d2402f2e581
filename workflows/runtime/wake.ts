/**
 * @file Does nothing: its only purpose is its first task, which makes the server start a worker for the task queue.
 *
 * Queries are no tasks; a client whose query finds no worker starts this one on the same queue (`client/waking.ts`).
 */

export async function wake(): Promise<void> {
  await Promise.resolve();
}
