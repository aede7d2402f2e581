/**
 * @file Reads one YAML document into plain data, and knows where in the text each value and key stands.
 *
 * YAML 1.2, core schema: maps with text keys, lists, text, numbers, true, false, null. Everything else is a problem with
 * its place: a key written twice, a second document, unknown tags, the rules of YAML 1.1 (where `no` is false).
 * Aliases share what they name, so a bomb of aliases costs nothing here, and `MAX_VALUES` bounds what it would unfold to.
 * Cost: linear in the text.
 */

import { isAlias, isMap, isScalar, isSeq, LineCounter, parseAllDocuments } from "yaml";
import type { Alias, Node, YAMLMap, YAMLSeq } from "yaml";
import { pathText, shown, type FileProblem, type ValuePath } from "./file-problem.ts";
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

/** Far above any real file. */
const MAX_CHARS = 1024 * 1024;
/** Values of the document with every alias unfolded. */
const MAX_VALUES = 200_000;
const START: Place = { line: 1, column: 1 };

export function readLocatedYaml(text: string, file: string): LocatedYaml {
  const unsound = (problems: readonly FileProblem[]): LocatedYaml => ({
    value: undefined,
    problems,
    isSound: false,
    placeOf: () => START,
  });
  const whole = { file, ...START, path: "", value: "" };
  if (text.length > MAX_CHARS) {
    const message = `${text.length} characters are too many; at most ${MAX_CHARS} are read`;
    return unsound([{ ...whole, message, remedy: "split the file, or use ranges of host names" }]);
  }
  const lines = new LineCounter();
  const placeAt = (offset: number): Place => {
    const { line, col } = lines.linePos(offset);
    return { line: Math.max(1, line), column: Math.max(1, col) };
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
  };
  const { value } = contents === null ? { value: undefined } : readNode(contents, [], walk);
  const placeOf = (path: ValuePath, part: "key" | "value"): Place =>
    placeAt(offsetOf(contents, path, { part, targets: walk.targets }));
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
  const firstLines = new Map<string, number>();
  for (const { key, value } of map.items) {
    const name = keyText(key);
    const keyNode = isYamlNode(key) ? key : map;
    if (name === undefined) {
      note(walk, keyNode, {
        path,
        value: "",
        message: "a list or map stands as a key",
        remedy: "write a plain word before the colon",
      });
      continue;
    }
    const firstLine = firstLines.get(name);
    if (firstLine !== undefined) {
      const message = `key \`${shown(name).slice(1, -1)}\` is written twice, first in line ${firstLine}`;
      note(walk, keyNode, {
        path: [...path, name],
        value: "",
        message,
        remedy: "keep one of the two",
      });
      continue;
    }
    firstLines.set(name, walk.placeAt(keyNode.range?.[0] ?? 0).line);
    const made = isYamlNode(value) ? readNode(value, [...path, name], walk) : NOTHING;
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
  problems.push({ file, ...placeAt(node.range?.[0] ?? 0), path: pathText(path), ...rest });
}

/** Offset in the text of what stands at a path, as far as the path exists. */
function offsetOf(
  root: Node | null,
  path: ValuePath,
  { part, targets }: { readonly part: "key" | "value"; readonly targets: ReadonlyMap<Alias, Node> },
): number {
  let node: Node | null = root;
  let offset = root?.range?.[0] ?? 0;
  for (const [at, step] of path.entries()) {
    const around: Node | undefined =
      node !== null && isAlias(node) ? targets.get(node) : (node ?? undefined);
    let next: unknown;
    let key: unknown;
    if (isMap(around)) {
      const pair = around.items.find((each) => keyText(each.key) === step);
      next = pair?.value;
      key = pair?.key;
      // The key itself, also as the best place for a value that is missing inside it.
      if (isYamlNode(key)) offset = key.range?.[0] ?? offset;
    } else if (isSeq(around) && typeof step === "number") {
      next = around.items[step];
    }
    if (key === undefined && next === undefined) return offset;
    node = isYamlNode(next) ? next : null;
    const isKeyMeant = part === "key" && at === path.length - 1 && key !== undefined;
    if (at === path.length - 1 && !isKeyMeant) return node?.range?.[0] ?? offset;
    if (key === undefined) offset = node?.range?.[0] ?? offset;
  }
  return offset;
}

/** A key as JSON has it: text; undefined for a list or map. */
function keyText(key: unknown): string | undefined {
  if (isScalar(key)) return String(key.value);
  return key === null ? "null" : undefined;
}

/** The library types the items of collections as unknown; what its parser makes are nodes, or null for nothing. */
const isYamlNode = (value: unknown): value is Node =>
  isScalar(value) || isMap(value) || isSeq(value) || isAlias(value);
