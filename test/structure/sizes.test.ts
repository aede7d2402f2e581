/**
 * @file Sizes that a reader can hold: files of 400 lines, functions of 100, three positional parameters, a README a room.
 *
 * A table of data counts nothing. A factory of closures (it ends in `return { … }`, 250 lines in all) counts its own lines, and each closure
 * counts by itself, but for workflows and machines, whose functions count whole. A callback's parameters are its caller's.
 */

import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import ts from "typescript";
import { describe, expect, it } from "vitest";
import { ROOMS } from "../../tools/rooms.mjs";
import { ROOT, sources, type SourceFile } from "./sources.ts";

const MOST_FILE_LINES = 400;
const MOST_TEST_LINES = 500;
const MOST_FUNCTION_LINES = 100;
const MOST_FACTORY_LINES = 250;
const MOST_PARAMETERS = 3;
const MOST_README_LINES = 30;
/** A table from this size on does not count to its file. */
const TABLE_LINES = 20;

type Bodied = ts.FunctionLikeDeclaration & { readonly body: ts.Node };

const isTest = (file: string): boolean => file.startsWith("test/");
const linesOf = (tree: ts.SourceFile, node: ts.Node): number =>
  tree.getLineAndCharacterOfPosition(node.end).line -
  tree.getLineAndCharacterOfPosition(node.getStart(tree)).line +
  1;

const bare = (node: ts.Node): ts.Node =>
  ts.isAsExpression(node) || ts.isSatisfiesExpression(node) || ts.isParenthesizedExpression(node)
    ? bare(node.expression)
    : node;

const isLiteral = (node: ts.Node | undefined): node is ts.Node =>
  node !== undefined &&
  (ts.isObjectLiteralExpression(bare(node)) || ts.isArrayLiteralExpression(bare(node)));

const isBodied = (node: ts.Node): node is Bodied =>
  ts.isFunctionLike(node) && "body" in node && node.body !== undefined;

function hasStatements(node: ts.Node): boolean {
  if (isBodied(node) && ts.isBlock(node.body)) return true;
  return ts.forEachChild(node, (child) => hasStatements(child) || undefined) ?? false;
}

function returnedBy({ body }: Bodied): ts.Node | undefined {
  if (!ts.isBlock(body)) return body;
  const last = body.statements.at(-1);
  return last !== undefined && ts.isReturnStatement(last) ? last.expression : undefined;
}

function functionLines({ file, tree }: SourceFile, node: Bodied): number {
  const returned = returnedBy(node);
  const isOneStatement = !ts.isBlock(node.body) || node.body.statements.length === 1;
  if (isOneStatement && isLiteral(returned) && !hasStatements(returned)) return 0;
  const whole = linesOf(tree, node);
  const mayHaveClosures = !/^(workflows|machines)\//.test(file) && whole <= MOST_FACTORY_LINES;
  if (!mayHaveClosures || !ts.isBlock(node.body) || !isLiteral(returned)) return whole;
  let inner = 0;
  const visit = (child: ts.Node): void => {
    if (isBodied(child)) inner += linesOf(tree, child);
    else ts.forEachChild(child, visit);
  };
  ts.forEachChild(node.body, visit);
  return whole - inner;
}

function positionalParameters(node: Bodied): number {
  const parameters = node.parameters.filter(({ name }) => name.getText() !== "this");
  const last = parameters.at(-1);
  const hasOptions =
    last !== undefined &&
    (ts.isObjectBindingPattern(last.name) || /options$/i.test(last.name.getText()));
  return parameters.length - (hasOptions ? 1 : 0);
}

const nameOf = (node: Bodied): string =>
  node.name?.getText() ??
  (ts.isVariableDeclaration(node.parent) ? node.parent.name.getText() : "(anonymous)");

const functions = sources
  .filter(({ file }) => !isTest(file))
  .flatMap((source) => {
    const found: Bodied[] = [];
    const visit = (node: ts.Node): void => {
      if (isBodied(node)) found.push(node);
      ts.forEachChild(node, visit);
    };
    visit(source.tree);
    return found.map((node) => ({ source, node }));
  });

function fileLines({ tree }: SourceFile): number {
  const tables = tree.statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => declarationList.declarations)
    .filter(({ initializer }) => initializer !== undefined && !hasStatements(initializer))
    .map((declaration) => linesOf(tree, declaration))
    .filter((lines) => lines > TABLE_LINES);
  const lines = tree.getLineAndCharacterOfPosition(tree.end).line;
  return lines - tables.reduce((sum, each) => sum + each, 0);
}

describe("sizes", () => {
  it(`files have at most ${String(MOST_FILE_LINES)} lines, tests ${String(MOST_TEST_LINES)}`, () => {
    const long = sources.flatMap((source) => {
      const lines = fileLines(source);
      const most = isTest(source.file) ? MOST_TEST_LINES : MOST_FILE_LINES;
      return lines > most ? [`${source.file}: ${String(lines)}`] : [];
    });
    expect(long).toEqual([]);
  });

  it(`functions have at most ${String(MOST_FUNCTION_LINES)} lines`, () => {
    const long = functions.flatMap(({ source, node }) => {
      const lines = functionLines(source, node);
      return lines > MOST_FUNCTION_LINES
        ? [`${source.file} ${nameOf(node)}: ${String(lines)}`]
        : [];
    });
    expect(long).toEqual([]);
  });

  it(`functions have at most ${String(MOST_PARAMETERS)} positional parameters beside their options`, () => {
    const wide = functions.flatMap(({ source, node }) =>
      positionalParameters(node) > MOST_PARAMETERS && !ts.isCallExpression(node.parent)
        ? [`${source.file} ${nameOf(node)}`]
        : [],
    );
    expect(wide).toEqual([]);
  });

  it(`every room has a README of at most ${String(MOST_README_LINES)} lines`, () => {
    const rooms = [...Object.keys(ROOMS), "cli", "bench", "scheduling", "planning"];
    const without = rooms.filter((room) => {
      const file = path.join(ROOT, room, "README.md");
      if (!existsSync(file)) return true;
      return readFileSync(file, "utf8").trimEnd().split("\n").length > MOST_README_LINES;
    });
    expect(without).toEqual([]);
  });
});
