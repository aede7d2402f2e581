/**
 * @file Makes text of others safe for a terminal: control characters are shown, never obeyed.
 *
 * Names, messages and output come from whoever submits jobs. A terminal obeys escape sequences in them: they clear the screen, rewrite
 * earlier lines, set the title, or answer for the reader. So they become visible escapes (`lib/visible-text.ts`). Colours of our own pass: each carries numbers that were drawn for this process.
 */

import { randomInt } from "node:crypto";
import { CONTROLS, shownControl } from "../../lib/visible-text.ts";

/** Parameters without a meaning to terminals. At most four digits each, or programs that measure text do not know them for a colour. */
const OWN_MARK = Array.from({ length: 4 }, () => randomInt(1_000, 10_000)).join(";");
const OWN_COLOUR = `\\u001b\\[(\\d{1,2});${OWN_MARK}m`;
const OWN_OR_CONTROL = new RegExp(`${OWN_COLOUR}|${CONTROLS}`, "g");
/** JSON escapes the C0 controls by itself. */
const LEFT_BY_JSON = /[\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g;

/** Marks the colour around a text as ours. */
export const ownColour = (coloured: string): string =>
  coloured.replace(
    /^\u001b\[(\d{1,2})m([^]*)\u001b\[(\d{1,2})m$/,
    `\u001b[$1;${OWN_MARK}m$2\u001b[$3;${OWN_MARK}m`,
  );

export function safeText(text: string): string {
  return text.replace(OWN_OR_CONTROL, (found: string, colour: string | undefined) =>
    colour === undefined ? shownControl(found) : `\u001b[${colour}m`,
  );
}

/** The same document in other words: a string may name any of its characters by an escape. */
export const safeJson = (document: string): string =>
  document.replace(
    LEFT_BY_JSON,
    (found) => `\\u${found.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );

/**
 * For output in pieces: a carriage return begins a new line, so a progress bar stays readable and nothing that was shown is overwritten.
 */
export function safeOutput(): (piece: string) => string {
  let isAfterReturn = false;
  return (piece) => {
    const whole = isAfterReturn ? `\r${piece}` : piece;
    isAfterReturn = whole.endsWith("\r");
    const ended = isAfterReturn ? whole.slice(0, -1) : whole;
    return safeText(ended.replace(/\r\n?/g, "\n"));
  };
}
