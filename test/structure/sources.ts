/** @file The sources as syntax trees, with what each imports: read once for all tests of the structure. */

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";

export const ROOT = path.resolve(import.meta.dirname, "../..");

export interface SourceFile {
  /** From the repository's root. */
  readonly file: string;
  readonly tree: ts.SourceFile;
  readonly imports: readonly ImportOf[];
}

export interface ImportOf {
  /** A file of ours, from the root; undefined for a package. */
  readonly file: string | undefined;
  /** The package or Node's own module, as written; undefined for a file of ours. */
  readonly package: string | undefined;
  /** Nothing of it is there when the program runs. */
  readonly isTypeOnly: boolean;
  /** `import()` in the middle of a function: loaded when it is called. */
  readonly isDynamic: boolean;
}

const isOurs = (file: string): boolean =>
  file.endsWith(".ts") && !/(^|\/)(dist|node_modules|examples)\//.test(file);

/** Tracked files and new ones that git does not ignore. */
export const sources: readonly SourceFile[] = execFileSync(
  "git",
  ["ls-files", "--cached", "--others", "--exclude-standard"],
  { cwd: ROOT, encoding: "utf8", maxBuffer: 2 ** 26 },
)
  .split("\n")
  .filter((file) => isOurs(file) && existsSync(path.join(ROOT, file)))
  .map((file) => {
    const text = readFileSync(path.join(ROOT, file), "utf8");
    const tree = ts.createSourceFile(file, text, ts.ScriptTarget.Latest, true);
    return { file, tree, imports: importsOf(file, tree) };
  });

function importsOf(file: string, tree: ts.SourceFile): readonly ImportOf[] {
  const found: ImportOf[] = [];
  const note = (specifier: ts.Node, isTypeOnly: boolean, isDynamic: boolean): void => {
    if (!ts.isStringLiteral(specifier)) return;
    const { text } = specifier;
    const target = text.startsWith(".") ? path.join(path.dirname(file), text) : undefined;
    const named = target === undefined ? text : undefined;
    found.push({ file: target, package: named, isTypeOnly, isDynamic });
  };
  const visit = (node: ts.Node): void => {
    if (ts.isImportDeclaration(node)) note(node.moduleSpecifier, isTypeImport(node), false);
    else if (ts.isExportDeclaration(node) && node.moduleSpecifier)
      note(node.moduleSpecifier, node.isTypeOnly, false);
    else if (ts.isImportTypeNode(node) && ts.isLiteralTypeNode(node.argument))
      note(node.argument.literal, true, false);
    else if (ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword) {
      const [specifier] = node.arguments;
      if (specifier !== undefined) note(specifier, false, true);
    }
    ts.forEachChild(node, visit);
  };
  visit(tree);
  return found;
}

function isTypeImport({ importClause: clause }: ts.ImportDeclaration): boolean {
  if (clause === undefined) return false;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword) return true;
  const { namedBindings: bindings } = clause;
  return (
    clause.name === undefined &&
    bindings !== undefined &&
    ts.isNamedImports(bindings) &&
    bindings.elements.length > 0 &&
    bindings.elements.every((element) => element.isTypeOnly)
  );
}

const byFile = new Map(sources.map((source) => [source.file, source]));

/** All that these files load, and what that loads, by imports of this kind. */
export function reach(
  from: readonly SourceFile[],
  isFollowed: (each: ImportOf) => boolean,
): ReadonlySet<string> {
  const seen = new Set<string>();
  const left = from.map(({ file }) => file);
  for (let file = left.pop(); file !== undefined; file = left.pop()) {
    if (seen.has(file)) continue;
    seen.add(file);
    const { imports = [] } = byFile.get(file) ?? {};
    for (const each of imports)
      if (each.file !== undefined && isFollowed(each)) left.push(each.file);
  }
  return seen;
}

/** The packages that are loaded with these files at once; Node's own modules left out. */
export function packagesOf(from: readonly string[]): readonly string[] {
  const isAtOnce = ({ isTypeOnly, isDynamic }: ImportOf): boolean => !isTypeOnly && !isDynamic;
  const roots = sources.filter(({ file }) => from.includes(file));
  if (roots.length !== from.length) throw new Error(`not all of ${from.join(", ")} are sources`);
  const loaded = [...reach(roots, isAtOnce)].flatMap((file) => byFile.get(file)?.imports ?? []);
  const named = loaded.filter(isAtOnce).flatMap((each) => each.package ?? []);
  return [...new Set(named)].filter((name) => !name.startsWith("node:")).sort();
}
