/** @file Level 2: somebody who reaches the frontend, with a worker and workflows of their own. */

import { Client } from "@temporalio/client";
import { NativeConnection, Worker } from "@temporalio/worker";
import { join } from "node:path";
import { USER, WORD_ROLES } from "../../protocol/messages.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
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

export interface Strangers {
  /** Signs nothing. */
  readonly plain: Client;
  /** Signs all roles' words with keys that nobody believes. */
  readonly forger: Client;
}

/** Their keys lie in the folder. */
export function strangers({ temporal: { connection } }: World, dir: string): Strangers {
  const prove = wordProver([...WORD_ROLES, USER], {
    ORBWEAVER_KEYS: join(dir, "mallory"),
    ORBWEAVER_IDENTITY: join(dir, "mallory.pem"),
  });
  return {
    plain: new Client({ connection, identity: "mallory" }),
    forger: new Client({
      connection,
      identity: "forger",
      interceptors: { workflow: [signingInterceptor(prove)] },
    }),
  };
}
