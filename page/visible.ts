/**
 * @file Shows the controls in all that the page says: names, labels, reasons and output come from whoever submits jobs, and a character that reverses the direction
 * of text would let one name look like another. For preact's hook of all nodes (`options.vnode`), so that no view can forget it.
 */

import { visibleText } from "../lib/visible-text.ts";

/** Attributes that people read. */
const READ = ["title", "aria-label", "alt", "placeholder"] as const;

/** A text is a node without a type, whose properties are the text. */
export function showControls(node: { readonly type: unknown; props: unknown }): void {
  const { type, props } = node;
  if (typeof props === "string") node.props = shown(props);
  else if (typeof type === "string" && typeof props === "object" && props !== null)
    for (const name of READ) {
      const said: unknown = Reflect.get(props, name);
      if (typeof said === "string") Reflect.set(props, name, shown(said));
    }
}

/** A carriage return ends a line, as in a terminal. */
const shown = (text: string): string => visibleText(text.replace(/\r\n?/g, "\n"));
