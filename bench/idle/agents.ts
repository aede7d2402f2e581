/**
 * @file Many agents in one process, each of one host with queues of its own: `node agents.js <address> <fleet> <cluster> <hosts> <state folder>`.
 *
 * A machine cannot hold a thousand Node processes, but what an agent asks of the server is the same wherever it runs: each has its
 * own workers, and they share a connection and nothing else.
 */

import { pino } from "pino";
import { setTimeout as sleep } from "node:timers/promises";
import { clusterId, hostId } from "../../domain/values/ids.ts";
import { runAgent } from "../../workers/agent.ts";
import { isolatedConnection, openNative } from "../../workers/connection.ts";
import { clientOver, installRuntime } from "../../workers/workflow-worker.ts";

const GPUS = 8;
const [address = "", fleet = "", clusterName = "", hostNames = "", stateDir = ""] =
  process.argv.slice(2);
const logger = pino({ level: "warn" }, pino.destination(2));
installRuntime(logger, true, { isSilent: true });
const connection = isolatedConnection({ address, namespace: "default" });
const native = await openNative(connection);
const client = clientOver(native, connection, ["agent"]);
const cluster = clusterId(clusterName);
const agents = [];
for (const name of hostNames.split(",")) {
  agents.push(
    await runAgent({
      connection: native,
      client,
      namespace: connection.namespace,
      dataConverter: connection.workerPayloads.dataConverter,
      fleet,
      cluster,
      hosts: [{ id: hostId(cluster, name), gpuCount: GPUS }],
      stateDir,
      address: "127.0.0.1",
      onNote: (note) => logger.warn(note),
    }),
  );
  // Starting is synchronous work for the most part: those that are up must get their turn.
  await sleep(1);
}
process.send?.({ kind: "ready" });
process.disconnect();
await Promise.all(agents.map(({ ended }) => ended));
await native.close();
