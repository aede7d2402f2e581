/** @file Text as HTML and SVG may hold it, in elements and in quoted attributes; control characters become blanks. */

const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["&", "&amp;"],
  ["<", "&lt;"],
  [">", "&gt;"],
  ['"', "&quot;"],
  ["'", "&#39;"],
]);

export const escaped = (text: string): string =>
  text
    .replace(/[\u0000-\u001f\u007f-\u009f]/g, " ")
    .replace(/[&<>"']/g, (char) => ENTITIES.get(char) ?? char);
