/** @file Level 2: somebody who reaches the frontend, with a worker and workflows of their own. */

import { Client, type WorkflowHandle } from "@temporalio/client";
import type { PayloadCodec } from "@temporalio/common";
import { NativeConnection, Worker } from "@temporalio/worker";
import { join } from "node:path";
import { JOB_WORKFLOW, USER, WORD_ROLES } from "../../protocol/messages.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import type { World } from "../support/world.ts";

export interface Attacker {
  /** Has a workflow of its own give the order; answers with what the host answers. */
  order(
    queue: string | undefined,
    activity: string,
    ...order: readonly unknown[]
  ): Promise<unknown>;
  /** The same from a workflow of this id, and what it fails for. */
  orderAs(
    workflowId: string,
    queue: string | undefined,
    activity: string,
    order: unknown,
  ): Promise<string>;
  /** Starts one that looks like a job and answers so when it is asked for its view. */
  job(workflowId: string, view: unknown): Promise<WorkflowHandle>;
  stop(): Promise<void>;
}

/** `reads`: decodes what workers with keys answer; what the attacker says is in the open. */
export async function startAttacker(
  world: World,
  reads?: PayloadCodec["decode"],
): Promise<Attacker> {
  const encode: PayloadCodec["encode"] = (payloads) => Promise.resolve(payloads);
  const dataConverter = reads && { payloadCodecs: [{ encode, decode: reads }] };
  const taskQueue = `attacker-${world.fleet}`;
  const connection = await NativeConnection.connect({ address: world.address });
  const worker = await Worker.create({
    connection,
    taskQueue,
    workflowsPath: join(import.meta.dirname, "forged-orders-workflow.ts"),
    ...(dataConverter && { dataConverter }),
  });
  const running = worker.run();
  let count = 0;
  const client = new Client({
    ...{ connection: world.temporal.connection, identity: "mallory" },
    ...(dataConverter && { dataConverter }),
  });
  return {
    order: (queue, activity, ...order) =>
      client.workflow.execute("forgedOrder", {
        workflowId: `${taskQueue}-${String((count += 1))}`,
        taskQueue,
        args: [queue, activity, ...order],
      }),
    orderAs: async (workflowId, queue, activity, order) => {
      try {
        const args = [queue, activity, order];
        const said = await client.workflow.execute("forgedOrder", { workflowId, taskQueue, args });
        return `obeyed: ${JSON.stringify(said)}`;
      } catch (error) {
        let cause = error;
        while (cause instanceof Error && cause.cause instanceof Error) cause = cause.cause;
        return cause instanceof Error ? cause.message : String(cause);
      }
    },
    job: (workflowId, view) =>
      client.workflow.start(JOB_WORKFLOW, { workflowId, taskQueue, args: [view] }),
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
