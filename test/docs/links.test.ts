/** @file Pages name only what exists: relative links with their headings, and paths of the repository in backticks. */

import { existsSync, readdirSync, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { pages, ROOT, type Page } from "./pages.ts";

const PAGES = pages();
const TOP_FOLDERS = new Set(
  readdirSync(ROOT, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name),
);
/** Made by a build, or by a command that the page tells of. */
const MADE =
  /^(dist|plugin\/build|node_modules|test\/integration\/\.)(\/|$)|^examples\/branchy\.onnx$/;
/** Files that other projects' repositories have under a folder name of ours. */
const ELSEWHERE = new Set(["src/include/plugin"]);

/** Line numbers with the text outside of fenced blocks. */
function prose({ lines }: Page): readonly { readonly line: number; readonly text: string }[] {
  let isFenced = false;
  return lines.flatMap((text, index) => {
    if (/^\s*```/.test(text)) {
      isFenced = !isFenced;
      return [];
    }
    return isFenced ? [] : [{ line: index + 1, text }];
  });
}

/** GitHub's anchor of a heading. */
const anchorOf = (heading: string): string =>
  heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N}\s_-]/gu, "")
    .trim()
    .replace(/\s/g, "-");

function anchorsOf(file: string): ReadonlySet<string> {
  const lines = readFileSync(file, "utf8").split("\n");
  return new Set(
    lines.filter((line) => /^#+ /.test(line)).map((line) => anchorOf(line.replace(/^#+ /, ""))),
  );
}

/** Why a link of `page` leads nowhere, if so. */
function linkProblem(page: Page, target: string): string | undefined {
  const [file = "", anchor] = target.split("#");
  const full =
    file === "" ? path.join(ROOT, page.file) : path.join(ROOT, path.dirname(page.file), file);
  if (!existsSync(full)) return `${target} does not exist`;
  if (anchor !== undefined && !anchorsOf(full).has(anchor)) return `${target} has no such heading`;
  return undefined;
}

/** `{a,b}` is both; a path with `*`, `<…>` or `…` names no single file. */
function spelledOut(text: string): readonly string[] {
  const braces = /^(.*)\{([^{}]*)\}(.*)$/.exec(text);
  if (braces === null) return [text];
  const [, before = "", inside = "", after = ""] = braces;
  return inside.split(",").flatMap((part) => spelledOut(`${before}${part}${after}`));
}

const looksLikePath = (text: string): boolean =>
  /^[\w.-]+(\/[\w.-]+)*\/?$/.test(text) &&
  ((text.includes("/") && TOP_FOLDERS.has(text.split("/")[0] ?? "")) ||
    /^[\w-]+(\/[\w-]+)+\.(ts|mjs|c|h)$/.test(text));

const pathExists = (page: Page, text: string): boolean =>
  [ROOT, path.join(ROOT, path.dirname(page.file))].some((from) =>
    existsSync(path.join(from, text)),
  );

describe("pages", () => {
  it("relative links lead to files and headings", () => {
    const problems = PAGES.flatMap((page) =>
      prose(page).flatMap(({ line, text }) =>
        [...text.matchAll(/\]\(([^)\s]+)\)/g)]
          .map(([, target = ""]) => target)
          .filter((target) => !/^[a-z]+:/.test(target))
          .flatMap((target) => {
            const problem = linkProblem(page, target);
            return problem === undefined ? [] : [`${page.file}:${line} ${problem}`];
          }),
      ),
    );
    expect(problems).toEqual([]);
  });

  it("paths of the repository in backticks exist", () => {
    const problems = PAGES.flatMap((page) =>
      prose(page).flatMap(({ line, text }) =>
        [...text.matchAll(/`([^`\s]+)`/g)]
          .flatMap(([, quoted = ""]) => spelledOut(quoted))
          .filter((quoted) => looksLikePath(quoted) && !MADE.test(quoted) && !ELSEWHERE.has(quoted))
          .filter((quoted) => !pathExists(page, quoted))
          .map((quoted) => `${page.file}:${line} ${quoted}`),
      ),
    );
    expect(problems).toEqual([]);
  });

  it("source files that are named without a folder exist", () => {
    const names = new Set([...TOP_FOLDERS].filter(isOurs).flatMap((folder) => namesIn(folder)));
    const problems = PAGES.flatMap((page) =>
      prose(page).flatMap(({ line, text }) =>
        [...text.matchAll(/`([\w-]+\.(?:ts|mjs|c))`/g)]
          .map(([, quoted = ""]) => quoted)
          .filter((quoted) => !names.has(quoted) && !existsSync(path.join(ROOT, quoted)))
          .map((quoted) => `${page.file}:${line} ${quoted}`),
      ),
    );
    expect(problems).toEqual([]);
  });

  it("no line is longer than 400 characters", () => {
    const long = PAGES.flatMap(({ file, lines }) =>
      lines.flatMap((text, index) => (text.length > 400 ? [`${file}:${index + 1}`] : [])),
    );
    expect(long).toEqual([]);
  });
});

const isOurs = (folder: string): boolean =>
  !folder.startsWith(".") && !["node_modules", "dist"].includes(folder);

function namesIn(folder: string): readonly string[] {
  return readdirSync(path.join(ROOT, folder)).flatMap((name) => {
    const inside = path.join(folder, name);
    return statSync(path.join(ROOT, inside)).isDirectory() ? namesIn(inside) : [name];
  });
}

describe("lists of pages", () => {
  const records = readdirSync(path.join(ROOT, "docs/decisions")).filter((name) => /^\d/.test(name));

  it("the index of decisions names every record once, in order", () => {
    const index = readFileSync(path.join(ROOT, "docs/decisions/README.md"), "utf8");
    const named = [...index.matchAll(/^\| \[\d+\]\(([^)]+)\)/gm)].map(([, file]) => file);
    expect(named).toEqual(records.sort());
  });

  it("the glossary is in alphabetical order, each term once, with no empty cell", () => {
    const rows = readFileSync(path.join(ROOT, "docs/glossary.md"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith("| **"))
      .map((line) =>
        line
          .slice(1, -1)
          .split("|")
          .map((cell) => cell.trim()),
      );
    const terms = rows.map(([term = ""]) => term.replaceAll("*", "").toLowerCase());
    expect(terms).toEqual([...new Set(terms)].sort());
    for (const cells of rows) expect(cells.filter((cell) => cell === "")).toEqual([]);
    expect(rows.length).toBeGreaterThan(50);
  });
});
