/** Text of others on the console's page. */

import { expect, it } from "vitest";
import { showControls } from "../../page/visible.ts";

it.each([
  ["reversed text", "a\u202egnp.exe", "a\\u202egnp.exe"],
  ["an isolate", "\u2066b", "\\u2066b"],
  ["a control", "a\u001b[2Jb", "a\\x1b[2Jb"],
  ["ends of lines", "a\r\nb\rc\n", "a\nb\nc\n"],
  ["plain text", "é 漢\t🙂", "é 漢\t🙂"],
])("%s is shown as it is, in texts and in what is read with the mouse", (_name, text, want) => {
  const element = { type: "p", props: { title: text, "aria-label": text, class: text } };
  showControls(element);
  expect(element.props).toEqual({ title: want, "aria-label": want, class: text });
  const node = { type: null, props: text };
  showControls(node);
  expect(node.props).toBe(want);
});
