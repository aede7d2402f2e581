/**
 * @file Text without what may be a secret: values that are known to be, and whatever has the form of one. Rather too much is taken out than too little.
 * Pure. Cost: one pass for each rule and for each known value.
 */

const REMOVED = "[removed]";
/** A shorter value would take out words of the text. */
const LEAST_KNOWN = 6;
const SECRET_NAME =
  "[\\w.-]*(?:password|passwd|passphrase|secret|token|credential|authorization|api[-_]?key|private[-_]?key|access[-_]?key)[\\w.-]*";

type Rule = readonly [form: RegExp, instead: string];

const RULES: readonly Rule[] = [
  [/-----BEGIN [A-Z0-9 ]+-----[\s\S]*?(?:-----END [A-Z0-9 ]+-----|$)/g, REMOVED],
  // JSON Web Tokens.
  [/\beyJ[\w-]{5,}\.[\w-]+(?:\.[\w-]+)?/g, REMOVED],
  [/\b(Bearer|Basic) +[^\s"',;]+/gi, `$1 ${REMOVED}`],
  // The user's part of an address, then all that follows its path; of webhooks of chats the path is the secret.
  [/(\b[a-z][a-z0-9+.-]*:\/\/)[^\s/@"']+@/gi, `$1${REMOVED}@`],
  [/(\bhttps?:\/\/[^\s"'?#]*)[?#][^\s"']*/gi, `$1?${REMOVED}`],
  [/(\bhttps?:\/\/[^\s"'/]*(?:hook|slack|discord|office)[^\s"'/]*\/)[^\s"']*/gi, `$1${REMOVED}`],
  [
    new RegExp(`(${SECRET_NAME}["']?\\s*[:=]\\s*)("[^"\\n]*"|'[^'\\n]*'|[^\\s,;}\\]]+)`, "gi"),
    `$1"${REMOVED}"`,
  ],
  [new RegExp(`(--?${SECRET_NAME}\\s+)[^\\s-][^\\s]*`, "gi"), `$1${REMOVED}`],
  // Keys in Base64: long, with letters of both cases and digits.
  [
    /(?=[A-Za-z+_=-]*\d)(?=[A-Z0-9+_=-]*[a-z])(?=[a-z0-9+_=-]*[A-Z])[A-Za-z0-9+/_=-]{40,}/g,
    REMOVED,
  ],
];

/** `known`: values that are secret whatever their form. */
export function withoutSecrets(text: string, known: readonly string[] = []): string {
  let left = text;
  const longest = [...known].sort((a, b) => b.length - a.length || (a < b ? -1 : 1));
  for (const value of longest)
    if (value.length >= LEAST_KNOWN) left = left.replaceAll(value, REMOVED);
  for (const [form, instead] of RULES) left = left.replace(form, instead);
  return left;
}

/** Values of variables whose names say that they are secret. */
export const secretValues = (
  env: Readonly<Record<string, string | undefined>>,
): readonly string[] =>
  Object.entries(env).flatMap(([name, value]) =>
    new RegExp(`^${SECRET_NAME}$|KEY|AUTH|COOKIE`, "i").test(name) && value ? [value] : [],
  );
