/** @file The options that all verbs of sessions share. */

import { Option, type Command } from "commander";
import { LONGEST_SESSION_MS } from "../../access/session-ticket.ts";
import { addServiceOptions, type ConnectionOptionValues } from "../command/connection-options.ts";
import { durationMs } from "../command/option-values.ts";

export interface SessionOptionValues extends ConnectionOptionValues {
  readonly idle: number;
}

export const addSessionOptions = (verb: Command): Command =>
  addServiceOptions(
    verb.addOption(
      new Option(
        "--idle <duration>",
        "end after this time without a byte in either direction, e.g. 30m",
      )
        .argParser(durationMs("--idle", { leastMs: 1_000, mostMs: LONGEST_SESSION_MS }))
        .default(LONGEST_SESSION_MS, "24h"),
    ),
  );
