/** @file The Temporal server of the test file that runs: files that run at the same time have different ones. */

import { inject } from "vitest";

/** `host:port`, namespace `default`. */
export function serverAddress(): string {
  const lane = Number(process.env["VITEST_POOL_ID"]);
  const address = inject("temporalAddresses")[lane - 1];
  if (address === undefined) throw new Error(`lane ${String(lane)} of the tests has no server`);
  return address;
}
