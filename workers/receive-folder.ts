/**
 * @file The program that brings a job's folder to a host: `receive-folder.js FOLDER HASH PLACE…`. It runs as the job's user, who owns the folder.
 */

import { receiveFolder } from "../agent/system/receive-folder.ts";

const [into = "", hash = "", ...from] = process.argv.slice(2);
try {
  await receiveFolder({ into, hash, from });
} catch (error) {
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exitCode = 1;
}
