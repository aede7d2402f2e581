/**
 * @file Reads one YAML document into plain data, and knows where in the text each value and key stands.
 *
 * YAML 1.2, core schema: maps with text keys, lists, text, numbers, true, false, null. Everything else is a problem with
 * its place: a key written twice, a second document, unknown tags, the rules of YAML 1.1 (where `no` is false).
 * Aliases share their targets, so a bomb of aliases costs nothing here, and `MAX_VALUES` bounds its unfolded size.
 * Cost: linear in the text. Empty lines before it cost next to nothing: a document may stand far down in its file.
 */

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments } from "yaml";
import type { Alias, Node, YAMLMap, YAMLSeq } from "yaml";
import { pathText, shown, type FileProblem, type ValuePath } from "../values/file-problem.ts";
import { syntaxProblems } from "./yaml-syntax.ts";

export interface LocatedYaml {
  /** Undefined for an empty document. */
  readonly value: unknown;
  readonly problems: readonly FileProblem[];
  /** Whether `value` is what the author wrote: false after a syntax error, where further problems would mislead. */
  readonly isSound: boolean;
  /** Where the value or the key at a path stands; for a path that does not exist, the nearest thing around it. */
  readonly placeOf: (path: ValuePath, part: "key" | "value") => Place;
}

export interface Place {
  /** Both counted from 1. */
  readonly line: number;
  readonly column: number;
}

/** How much of a text is read, and the remedy when it is longer. */
export interface TextLimit {
  readonly maxChars: number;
  readonly remedy: string;
}

/** Far above any real file. */
const USUAL_LIMIT: TextLimit = {
  maxChars: 1024 * 1024,
  remedy: "split the file, or use ranges of host names",
};
/** Values of the document with every alias unfolded. */
const MAX_VALUES = 200_000;
const START: Place = { line: 1, column: 1 };

export function readLocatedYaml(
  inItsLines: string,
  file: string,
  { maxChars, remedy }: TextLimit = USUAL_LIMIT,
): LocatedYaml {
  const unsound = (problems: readonly FileProblem[]): LocatedYaml => ({
    value: undefined,
    problems,
    isSound: false,
    placeOf: () => START,
  });
  const whole = { file, ...START, path: "", value: "" };
  const emptyLines = /^\n*/.exec(inItsLines)?.[0].length ?? 0;
  const text = inItsLines.slice(emptyLines);
  if (text.length > maxChars) {
    const message = `${text.length} characters are too many; at most ${maxChars} are read`;
    return unsound([{ ...whole, message, remedy }]);
  }
  const lines = new LineCounter();
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: emptyLines + Math.max(1, line), column: Math.max(1, col) };
  };
  // The library finds keys that are written twice in quadratic time: see `readMap` for ours.
  const documents = parseAllDocuments(text, {
    lineCounter: lines,
    prettyErrors: false,
    uniqueKeys: false,
  });
  const [document, second] = documents;
  if (document === undefined)
    return { value: undefined, problems: [], isSound: true, placeOf: () => START };
  const errors = documents.flatMap((each) => each.errors);
  if (errors.length > 0) return unsound(syntaxProblems(errors, file, placeAt));
  if (document.directives?.yaml.version === "1.1") {
    const message = "the document is YAML 1.1, where no, on and 1:30 are not text";
    return unsound([{ ...whole, message, remedy: "leave the %YAML line out; YAML 1.2 is read" }]);
  }
  const problems = syntaxProblems(document.warnings, file, placeAt);
  if (second !== undefined) {
    const place = placeAt(second.range[0]);
    const message = `a second document begins; the file has ${documents.length}`;
    problems.push({ ...whole, ...place, message, remedy: "write one file for each" });
  }
  const { contents } = document;
  const walk: Walk = {
    file,
    placeAt,
    problems,
    made: new Map(),
    open: new Set(),
    anchors: new Map(),
    targets: new Map(),
    pairs: new Map(),
  };
  const { value } = contents === null ? { value: undefined } : readNode(contents, [], walk);
  const placeOf = (path: ValuePath, part: "key" | "value"): Place =>
    placeAt(offsetOf(contents, path, { part, walk }));
  return { value, problems, isSound: true, placeOf };
}

interface Made {
  readonly value: unknown;
  /** Values in it, aliases unfolded. */
  readonly size: number;
}

interface Walk {
  readonly file: string;
  readonly placeAt: (offset: number) => Place;
  readonly problems: FileProblem[];
  readonly made: Map<Node, Made>;
  /** Nodes whose inside is being read: an alias to one of them has no end. */
  readonly open: Set<Node>;
  readonly anchors: Map<string, Node>;
  readonly targets: Map<Alias, Node>;
  readonly pairs: Map<YAMLMap, ReadonlyMap<string, LocatedPair>>;
}

interface LocatedPair {
  readonly key: Node;
  readonly value: Node | null;
}

const NOTHING: Made = { value: null, size: 1 };

/** Recursion is as deep as the text nests; the library refuses texts that would overflow the stack. */
function readNode(node: Node, path: ValuePath, walk: Walk): Made {
  if (isAlias(node)) return readAlias(node, path, walk);
  if (node.anchor !== undefined) walk.anchors.set(node.anchor, node);
  walk.open.add(node);
  const made = isMap(node)
    ? readMap(node, path, walk)
    : isSeq(node)
      ? readList(node, path, walk)
      : { value: node.value, size: 1 };
  walk.open.delete(node);
  walk.made.set(node, made);
  if (made.size <= MAX_VALUES) return made;
  const message = `with its aliases the document has more than ${MAX_VALUES} values`;
  note(walk, node, { path, value: "", message, remedy: "write fewer aliases" });
  return NOTHING;
}

function readAlias(node: Alias, path: ValuePath, walk: Walk): Made {
  const target = walk.anchors.get(node.source);
  if (target !== undefined) walk.targets.set(node, target);
  const made = target === undefined || walk.open.has(target) ? undefined : walk.made.get(target);
  if (made !== undefined) return made;
  const value = shown(`*${node.source}`);
  if (target === undefined) {
    note(walk, node, {
      path,
      value,
      message: `alias ${value} names nothing`,
      remedy: `write the value, or mark it with &${node.source} before`,
    });
  } else {
    note(walk, node, {
      path,
      value,
      message: `alias ${value} stands inside what it names`,
      remedy: "write the value out",
    });
  }
  return NOTHING;
}

function readList(list: YAMLSeq, path: ValuePath, walk: Walk): Made {
  let size = 1;
  const value = list.items.map((item, index) => {
    const made = isYamlNode(item) ? readNode(item, [...path, index], walk) : NOTHING;
    size += made.size;
    return made.value;
  });
  return { value, size };
}

function readMap(map: YAMLMap, path: ValuePath, walk: Walk): Made {
  let size = 1;
  const entries = new Map<string, unknown>();
  const pairs = new Map<string, LocatedPair>();
  walk.pairs.set(map, pairs);
  for (const item of map.items) {
    const name = keyText(item.key);
    const key = isYamlNode(item.key) ? item.key : map;
    const value = isYamlNode(item.value) ? item.value : null;
    if (name === undefined) {
      const message = "a list or map stands as a key";
      const remedy = "write a plain word before the colon";
      note(walk, key, { path, value: "", message, remedy });
      continue;
    }
    const first = pairs.get(name);
    if (first !== undefined) {
      const { line } = walk.placeAt(startOf(first.key));
      const message = `key \`${shown(name).slice(1, -1)}\` is written twice, first in line ${line}`;
      const remedy = "keep one of the two";
      note(walk, key, { path: [...path, name], value: "", message, remedy });
      continue;
    }
    pairs.set(name, { key, value });
    const made = value === null ? NOTHING : readNode(value, [...path, name], walk);
    size += made.size;
    entries.set(name, made.value);
  }
  // Makes own properties of every key, `__proto__` included.
  return { value: Object.fromEntries(entries), size };
}

interface Note {
  readonly path: ValuePath;
  readonly value: string;
  readonly message: string;
  readonly remedy: string;
}

function note({ file, placeAt, problems }: Walk, node: Node, { path, ...rest }: Note): void {
  problems.push({ file, ...placeAt(startOf(node)), path: pathText(path), ...rest });
}

/** Offset in the text of what stands at a path, as far as the path exists. */
function offsetOf(root: Node | null, path: ValuePath, { part, walk }: Sought): number {
  let node = root;
  let offset = root === null ? 0 : startOf(root);
  for (const [at, step] of path.entries()) {
    const isLast = at === path.length - 1;
    const around = node !== null && isAlias(node) ? walk.targets.get(node) : node;
    if (isMap(around)) {
      const pair = walk.pairs.get(around)?.get(String(step));
      if (pair === undefined) return offset;
      node = pair.value;
      // A value that is missing inside this one is best shown at the key.
      offset = startOf(isLast && part === "value" ? (node ?? pair.key) : pair.key);
    } else {
      const item = isSeq(around) && typeof step === "number" ? around.items[step] : undefined;
      if (!isYamlNode(item)) return offset;
      node = item;
      offset = startOf(item);
    }
  }
  return offset;
}

interface Sought {
  readonly part: "key" | "value";
  readonly walk: Walk;
}

const startOf = (node: Node): number => node.range?.[0] ?? 0;

/** A key as JSON has it: text; undefined for a list or map. */
function keyText(key: unknown): string | undefined {
  if (isScalar(key)) return String(key.value);
  return key === null ? "null" : undefined;
}

/** The library types the items of collections as unknown; what its parser makes are nodes, or null for nothing. */
const isYamlNode = (value: unknown): value is Node =>
  isScalar(value) || isMap(value) || isSeq(value) || isAlias(value);
