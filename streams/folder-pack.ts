/**
 * @file A folder as one run of bytes: equal folders give equal bytes, whoever packs them and when.
 *
 * Four bytes with the length of a list in JSON, the list (path, mode, size, or the target of a link; sorted by path), then the contents of the files in
 * that order. Times and owners are left out. Who unpacks believes nothing: a path that leads out of the folder is refused.
 */

export interface PackedFile {
  /** Relative, with slashes. */
  readonly path: string;
  readonly isExecutable: boolean;
  readonly content: Uint8Array;
}

/** A symbolic link that stays in the folder. */
export interface PackedLink {
  readonly path: string;
  readonly target: string;
}

export type PackedEntry = PackedFile | PackedLink | { readonly path: string };

/** Of all bytes, unpacked: this is for code, not for data. */
export const MAX_FOLDER_BYTES: number = 256 * 1024 * 1024;
export const MAX_FOLDER_ENTRIES = 50_000;
/** Of the packed and compressed folder: each travels as a message of its own. */
export const FOLDER_PART_BYTES: number = 4 * 1024 * 1024;
/** At most this many parts have a folder's bytes, whatever its compression does. */
export const MAX_FOLDER_PARTS = 80;

/** The list of a folder's parts, which has the folder's name. */
export interface FolderParts {
  readonly parts: readonly string[];
}

const HEAD_BYTES = 4;

interface Row {
  readonly path: string;
  readonly size?: number;
  readonly isExecutable?: true;
  readonly target?: string;
}

export function packFolder(entries: readonly PackedEntry[]): Buffer {
  const sorted = [...entries].sort((one, other) => (one.path < other.path ? -1 : 1));
  const rows = sorted.map((entry): Row => {
    if ("target" in entry) return { path: entry.path, target: entry.target };
    if (!("content" in entry)) return { path: entry.path };
    const { path, content, isExecutable } = entry;
    return { path, size: content.length, ...(isExecutable && { isExecutable }) };
  });
  const list = Buffer.from(JSON.stringify(rows));
  const head = Buffer.alloc(HEAD_BYTES);
  head.writeUInt32BE(list.length);
  return Buffer.concat([
    head,
    list,
    ...sorted.flatMap((entry) => ("content" in entry ? [entry.content] : [])),
  ]);
}

/** Throws Error for what is no packed folder, or would write outside of one. */
export function unpackFolder(bytes: Buffer): readonly PackedEntry[] {
  if (bytes.length < HEAD_BYTES) throw new Error("it is cut off");
  let at = HEAD_BYTES + bytes.readUInt32BE(0);
  if (at > bytes.length) throw new Error("its list is cut off");
  const rows: unknown = JSON.parse(bytes.toString("utf8", HEAD_BYTES, at));
  if (!Array.isArray(rows) || rows.length > MAX_FOLDER_ENTRIES)
    throw new Error("its list has another form");
  const links = new Set<string>();
  const entries = rows.map((row: unknown): PackedEntry => {
    const { path, size, isExecutable, target } = rowOf(row);
    if (isUnderLink(path, links)) throw new Error(`${path} would be written through a link`);
    if (target !== undefined) {
      if (!staysInside(path, target)) throw new Error(`${path} leads out of the folder`);
      links.add(path);
      return { path, target };
    }
    if (size === undefined) return { path };
    const content = bytes.subarray(at, at + size);
    if (content.length !== size) throw new Error(`${path} is cut off`);
    at += size;
    return { path, isExecutable: isExecutable === true, content };
  });
  if (at !== bytes.length) throw new Error("it has bytes of no file");
  return entries;
}

function rowOf(row: unknown): Row {
  const wrong = new Error("its list has another form");
  if (typeof row !== "object" || row === null || !("path" in row)) throw wrong;
  const { path } = row;
  if (typeof path !== "string" || !isInside(path)) throw new Error("it has a path that leads out");
  const size = "size" in row ? row.size : undefined;
  const target = "target" in row ? row.target : undefined;
  if (size !== undefined && !(typeof size === "number" && Number.isSafeInteger(size) && size >= 0))
    throw wrong;
  if (target !== undefined && typeof target !== "string") throw wrong;
  return {
    path,
    ...(typeof size === "number" && { size }),
    ...("isExecutable" in row && row.isExecutable === true && { isExecutable: true }),
    ...(typeof target === "string" && { target }),
  };
}

const isInside = (path: string): boolean =>
  path !== "" &&
  !path.includes("\0") &&
  path.split("/").every((part) => part !== "" && part !== "." && part !== "..");

function isUnderLink(path: string, links: ReadonlySet<string>): boolean {
  const parts = path.split("/");
  return parts.some((_part, at) => links.has(parts.slice(0, at + 1).join("/")));
}

/** Whether a link at this path of a folder leads to something of the folder. */
export function staysInside(path: string, target: string): boolean {
  if (target === "" || target.startsWith("/") || target.includes("\0")) return false;
  let depth = path.split("/").length - 1;
  for (const part of target.split("/")) {
    if (part === "..") depth -= 1;
    else if (part !== "" && part !== ".") depth += 1;
    if (depth < 0) return false;
  }
  return true;
}
