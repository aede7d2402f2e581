/**
 * @file `.orbweaverignore`: which paths of a working folder are not sent. The rules are those of `.gitignore`: a line is a pattern, `#` begins a comment, a slash
 * at its end means folders only, one elsewhere binds it to the top folder, `!` takes back, `**` crosses folders, and the last line that fits decides.
 */

export interface IgnoredPath {
  /** Relative to the folder, with slashes. */
  readonly path: string;
  readonly isFolder: boolean;
}

interface Rule {
  readonly fits: RegExp;
  readonly isForFolders: boolean;
  readonly isTakenBack: boolean;
}

export const IGNORE_FILE = ".orbweaverignore";
/** Never of use on a host; a line such as `!.git` takes it back. */
const ALWAYS = [".git/"];

export function ignoreRules(text: string): (path: IgnoredPath) => boolean {
  const rules = [...ALWAYS, ...text.split(/\r?\n/)].flatMap(ruleOf);
  return ({ path, isFolder }) => {
    const fitting = rules.filter(
      ({ fits, isForFolders }) => (isFolder || !isForFolders) && fits.test(path),
    );
    return fitting.at(-1)?.isTakenBack === false;
  };
}

function ruleOf(line: string): Rule[] {
  const text = line.replace(/(?<!\\)\s+$/, "");
  if (text === "" || text.startsWith("#")) return [];
  const isTakenBack = text.startsWith("!");
  const said = isTakenBack ? text.slice(1) : text;
  const isForFolders = said.endsWith("/");
  const pattern = isForFolders ? said.slice(0, -1) : said;
  const isBound = pattern.includes("/");
  const body = expressionOf(pattern.replace(/^\//, ""));
  if (body === "") return [];
  return [{ fits: new RegExp(`^${isBound ? "" : "(?:.*/)?"}${body}$`), isForFolders, isTakenBack }];
}

const TOKEN = /\*\*\/|\/\*\*$|\*\*|\*|\?|\\.|\[[^\]]+\]|[^]/g;

const expressionOf = (pattern: string): string =>
  pattern.replaceAll(TOKEN, (token) => {
    if (token === "**/") return "(?:.*/)?";
    if (token === "/**") return "/.+";
    if (token === "**") return ".*";
    if (token === "*") return "[^/]*";
    if (token === "?") return "[^/]";
    if (token.length > 1 && token.startsWith("[")) return setOf(token.slice(1, -1));
    return plain(token.length > 1 ? token.slice(1) : token);
  });

function setOf(inside: string): string {
  const isOther = /^[!^]/.test(inside);
  const members = (isOther ? inside.slice(1) : inside).replaceAll(/[\\\]^]/g, String.raw`\$&`);
  return `(?!/)[${isOther ? "^" : ""}${members}]`;
}

const plain = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\/]/g, String.raw`\$&`);
