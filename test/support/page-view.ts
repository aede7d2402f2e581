/**
 * @file Renders a view of the console's page that holds no state, without a browser: its elements, each before those in it.
 *
 * The view is loaded by its name, because the types of a browser would change those of Node in all files that are checked with it.
 */

import { pathToFileURL } from "node:url";
import path from "node:path";

export interface PageElement {
  readonly tag: string;
  readonly props: Readonly<Record<string, unknown>>;
  readonly text: string;
}

type View = (props: unknown) => unknown;

/** `file`: under `page/`. */
export async function renderView(
  file: string,
  view: string,
  props: object,
): Promise<readonly PageElement[]> {
  const url = pathToFileURL(path.join(import.meta.dirname, "../../page", file)).href;
  const views = (await import(url)) as Readonly<Record<string, View | undefined>>;
  const found: PageElement[] = [];
  textOf(views[view]?.(props), found);
  return found;
}

export const textsOf = (elements: readonly PageElement[], tag: string): readonly string[] =>
  elements.filter((element) => element.tag === tag).map(({ text }) => text);

function textOf(node: unknown, found: PageElement[]): string {
  if (Array.isArray(node)) return node.map((child: unknown) => textOf(child, found)).join(" ");
  if (typeof node === "string" || typeof node === "number") return String(node);
  if (typeof node !== "object" || node === null || !("type" in node && "props" in node)) return "";
  const { type, props } = node as {
    readonly type: string | View;
    readonly props: Readonly<Record<string, unknown>>;
  };
  if (typeof type === "function") return textOf(type(props), found);
  const place = found.length;
  const text = textOf(props["children"], found);
  found.splice(place, 0, { tag: type, props, text });
  return text;
}
