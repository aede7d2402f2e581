/** @file Level 2: somebody who reaches the frontend, with a worker and workflows of their own. */

import { NativeConnection, Worker } from "@temporalio/worker";
import { join } from "node:path";
import type { World } from "../support/world.ts";

export interface Attacker {
  /** Has a workflow of its own give the order; answers with what the host answers. */
  order(queue: string | undefined, activity: string, order: unknown): Promise<unknown>;
  stop(): Promise<void>;
}

export async function startAttacker(world: World): Promise<Attacker> {
  const taskQueue = `attacker-${world.fleet}`;
  const connection = await NativeConnection.connect({ address: world.address });
  const worker = await Worker.create({
    connection,
    taskQueue,
    workflowsPath: join(import.meta.dirname, "forged-orders-workflow.ts"),
  });
  const running = worker.run();
  let count = 0;
  return {
    order: (queue, activity, order) =>
      world.temporal.workflow.execute("forgedOrder", {
        workflowId: `${taskQueue}-${String((count += 1))}`,
        taskQueue,
        args: [queue, activity, order],
      }),
    stop: async () => {
      worker.shutdown();
      await running;
      await connection.close();
    },
  };
}
