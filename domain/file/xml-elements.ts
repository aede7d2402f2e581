/**
 * @file Reads the XML that tools of GPUs write: elements with attributes and text. No namespaces, no entities but the five of XML.
 *
 * Declarations, comments and document types are skipped. All that is kept has its line, so that those who read the elements can name it.
 */

import { shown } from "../values/file-problem.ts";
import type { Problem } from "../values/problem.ts";

export interface XmlElement {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: readonly XmlElement[];
  /** The text directly inside, trimmed. */
  readonly text: string;
  /** Of its start tag, counted from 1. */
  readonly line: number;
}

export type ParsedXml =
  | { readonly kind: "parsed"; readonly root: XmlElement }
  | { readonly kind: "refused"; readonly problem: Problem };

interface Open {
  readonly name: string;
  readonly attributes: ReadonlyMap<string, string>;
  readonly children: XmlElement[];
  text: string;
  readonly line: number;
}

/** Deeper than any machine's tree of switches. */
const MAX_DEPTH = 64;
const TOKEN =
  /<!--[\s\S]*?-->|<\?[\s\S]*?\?>|<![^>]*>|<(\/?)([A-Za-z_][\w.:-]*)([^<>]*?)(\/?)>|[^<]+|</g;
const ATTRIBUTE = /\s+([A-Za-z_][\w.:-]*)\s*=\s*(?:"([^"]*)"|'([^']*)')/y;
const ENTITIES: ReadonlyMap<string, string> = new Map([
  ["&lt;", "<"],
  ["&gt;", ">"],
  ["&quot;", '"'],
  ["&apos;", "'"],
  ["&amp;", "&"],
]);

/** Cost: linear in the text. */
export function parseXml(text: string): ParsedXml {
  const open: Open[] = [];
  let root: XmlElement | undefined;
  let line = 1;
  const refuse = (at: number, message: string, remedy: string): ParsedXml => ({
    kind: "refused",
    problem: { line: at, message, remedy },
  });
  for (const match of text.matchAll(TOKEN)) {
    const [token, slash, name, inner = "", closing] = match;
    const at = line;
    for (const char of token) if (char === "\n") line += 1;
    const top = open.at(-1);
    if (name === undefined) {
      if (token === "<") return refuse(at, "a tag is not closed", "copy the file again, whole");
      if (token.startsWith("<")) continue;
      if (top !== undefined) top.text += token;
      else if (token.trim() !== "") return outside(at, token, root !== undefined);
      continue;
    }
    if (slash === "/") {
      if (top?.name !== name) {
        const found =
          top === undefined ? "nothing is open" : `${top.name} of line ${top.line} is open`;
        return refuse(
          at,
          `</${shown(name)}> ends an element, but ${found}`,
          "copy the file again, whole",
        );
      }
      open.pop();
      const done = closed(top);
      const parent = open.at(-1);
      if (parent === undefined) root = done;
      else parent.children.push(done);
      continue;
    }
    if (top === undefined && root !== undefined)
      return refuse(
        at,
        `<${shown(name)}> stands after the end of <${shown(root.name)}>`,
        "give one document a file",
      );
    const attributes = readAttributes(inner);
    if (typeof attributes === "string") {
      return refuse(
        at,
        `<${shown(name)}> has ${shown(attributes)}`,
        'attributes are written name="value", each once',
      );
    }
    const element: Open = { name, attributes, children: [], text: "", line: at };
    if (closing === "/") {
      if (top === undefined) root = closed(element);
      else top.children.push(closed(element));
    } else if (open.length >= MAX_DEPTH) {
      return refuse(
        at,
        `more than ${MAX_DEPTH} elements inside one another`,
        "give the tool's own output",
      );
    } else open.push(element);
  }
  const last = open.at(-1);
  if (last !== undefined)
    return refuse(last.line, `<${shown(last.name)}> has no end`, "copy the file again, whole");
  if (root === undefined) return refuse(1, "the text has no element", "give an XML document");
  return { kind: "parsed", root };
}

function outside(line: number, token: string, isAfter: boolean): ParsedXml {
  return {
    kind: "refused",
    problem: {
      line,
      message: `${shown(token.trim())} stands ${isAfter ? "after" : "before"} the document`,
      remedy: "give the XML document alone",
    },
  };
}

const closed = ({ name, attributes, children, text, line }: Open): XmlElement => ({
  name,
  attributes,
  children,
  text: plain(text.trim()),
  line,
});

/** What is not an attribute where there is one. */
function readAttributes(inner: string): ReadonlyMap<string, string> | string {
  const found = new Map<string, string>();
  let at = 0;
  while (inner.slice(at).trim() !== "") {
    ATTRIBUTE.lastIndex = at;
    const match = ATTRIBUTE.exec(inner);
    const [, name, double, single] = match ?? [];
    if (match === null || name === undefined || found.has(name)) return inner.slice(at).trim();
    found.set(name, plain(double ?? single ?? ""));
    at = ATTRIBUTE.lastIndex;
  }
  return found;
}

/** With the five entities of XML as what they stand for. */
export const plain = (text: string): string =>
  text.replace(/&(?:lt|gt|quot|apos|amp);/g, (entity) => ENTITIES.get(entity) ?? entity);
