/** @file Colours of answers: only on a terminal, never with NO_COLOR, always with FORCE_COLOR. */

import picocolors from "picocolors";
import type { Environment } from "../../workers/server/environment.ts";
import type { OutputStream } from "./io.ts";
import { ownColour } from "./safe-text.ts";

export type Colours = Readonly<
  Record<"bold" | "dim" | "green" | "red" | "yellow", (text: string) => string>
> & { readonly isColorSupported: boolean };

/** Each passes `safeText`, which shows the colours of others as text. */
export function coloursFor(stream: OutputStream, env: Environment): Colours {
  const colours = picocolors.createColors(isColoured(stream, env));
  return {
    isColorSupported: colours.isColorSupported,
    bold: (text) => ownColour(colours.bold(text)),
    dim: (text) => ownColour(colours.dim(text)),
    green: (text) => ownColour(colours.green(text)),
    red: (text) => ownColour(colours.red(text)),
    yellow: (text) => ownColour(colours.yellow(text)),
  };
}

/** https://no-color.org and https://force-color.org: a variable counts when it is not empty. */
function isColoured(stream: OutputStream, env: Environment): boolean {
  if (isSet(env["NO_COLOR"])) return false;
  if (isSet(env["FORCE_COLOR"])) return env["FORCE_COLOR"] !== "0";
  return stream.isTTY === true && env["TERM"] !== "dumb";
}

/** The colour of a job's state: green for good, yellow for waiting, red for bad. */
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
