/** @file When answers are coloured: on a terminal only, never against NO_COLOR, always for FORCE_COLOR. */

import picocolors from "picocolors";
import type { Environment } from "../workers/server/environment.ts";
import type { OutputStream } from "./io.ts";

export type Colours = ReturnType<typeof picocolors.createColors>;

export function coloursFor(stream: OutputStream, env: Environment): Colours {
  return picocolors.createColors(isColoured(stream, env));
}

/** https://no-color.org and https://force-color.org: a variable counts when it is not empty. */
export function isColoured(stream: OutputStream, env: Environment): boolean {
  if (isSet(env["NO_COLOR"])) return false;
  if (isSet(env["FORCE_COLOR"])) return env["FORCE_COLOR"] !== "0";
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

/** The colour of a job's state: green goes on, yellow waits, red is bad news. */
export function stateColour(colours: Colours, state: string): string {
  switch (state) {
    case "running":
    case "completed":
      return colours.green(state);
    case "pending":
    case "held":
    case "stopping":
      return colours.yellow(state);
    case "failed":
    case "terminated":
    case "timed-out":
      return colours.red(state);
    default:
      return colours.dim(state);
  }
}

function isSet(value: string | undefined): boolean {
  return value !== undefined && value !== "";
}
