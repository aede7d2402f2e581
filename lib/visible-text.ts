/**
 * @file Text of others with its controls shown, not obeyed: C0 and C1 controls (tab and newline apart), separators of lines and paragraphs, and the characters that
 * reverse the direction of text, as escapes such as `\x1b` and `\u202e`.
 */

export const CONTROLS =
  "[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u061c\\u200e\\u200f\\u2028\\u2029\\u202a-\\u202e\\u2066-\\u2069]";
const ALL = new RegExp(CONTROLS, "g");

export const visibleText = (text: string): string => text.replace(ALL, shownControl);

export function shownControl(control: string): string {
  if (control === "\r") return "\\r";
  const code = control.charCodeAt(0);
  const digits = code.toString(16);
  return code < 0x100 ? `\\x${digits.padStart(2, "0")}` : `\\u${digits.padStart(4, "0")}`;
}
