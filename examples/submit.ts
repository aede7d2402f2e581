/** @file Submits a job with the client library, follows its log, and prints how it ended. */

import { Client, Connection } from "@temporalio/client";
import { loadClientConnectConfig } from "@temporalio/envconfig";
import { OrbweaverClient } from "orbweaver";

const { connectionOptions, namespace } = loadClientConnectConfig();
const connection = await Connection.connect(connectionOptions);
const client = new Client({ connection, ...(namespace !== undefined && { namespace }) });
const orbweaver = new OrbweaverClient(client, {
  fleet: process.env["ORBWEAVER_FLEET"] ?? "default",
});

const { jobId } = await orbweaver.submit({
  name: "hello",
  gang: { gpus: 2 },
  run: { command: ["sh", "-c", "echo rank $RANK of $WORLD_SIZE on GPUs $CUDA_VISIBLE_DEVICES"] },
});
const job = orbweaver.job(jobId);
for await (const text of job.logs({ rank: "all", follow: true })) process.stdout.write(text);
const { hosts, ranMs } = await job.result();
console.log(`${jobId} ran ${String(ranMs)} ms on ${hosts.join(", ")}`);
await connection.close();
