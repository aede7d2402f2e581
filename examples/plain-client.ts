/** @file Submits a job with nothing but Temporal's own client; any of its languages can do the same. */

import { Client, Connection } from "@temporalio/client";
import { loadClientConnectConfig } from "@temporalio/envconfig";

const { connectionOptions, namespace } = loadClientConnectConfig();
const connection = await Connection.connect(connectionOptions);
const client = new Client({ connection, ...(namespace !== undefined && { namespace }) });

const job = {
  name: "hello",
  gang: { gpus: 2 },
  run: { command: ["sh", "-c", "echo rank $RANK of $WORLD_SIZE"] },
};
const handle = await client.workflow.start("job", {
  taskQueue: "orbweaver-jobs",
  workflowId: `hello-${String(Date.now())}`,
  // The second argument may be left out: it names a fleet other than `default`.
  args: [job, { fleet: process.env["ORBWEAVER_FLEET"] ?? "default" }],
});
console.log(await handle.result());
await connection.close();
