/**
 * @file Records a workflow's history for the replay tests: `node tools/record-history.mjs ADDRESS WORKFLOW_ID test/histories/job.NAME.json`.
 */

import { Client, Connection } from "@temporalio/client";
import { historyToJSON } from "@temporalio/common/lib/proto-utils.js";
import { writeFileSync } from "node:fs";

const [address, workflowId, file] = process.argv.slice(2);
const connection = await Connection.connect({ address });
const history = await new Client({ connection }).workflow.getHandle(workflowId).fetchHistory();
// The server writes who started what; whose machine it was is nobody's business.
const text = historyToJSON(history)
  .replace(/"identity": ?"[^"]*"/g, '"identity":"worker"')
  .replace(/"stackTrace": ?"(?:[^"\\]|\\.)*"/g, '"stackTrace":""')
  .replace(/"\d+@[^"]*-[0-9a-f]{32}"/g, '"sticky"');
writeFileSync(file, `${JSON.stringify(JSON.parse(text))}\n`);
await connection.close();
