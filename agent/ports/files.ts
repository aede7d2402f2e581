/**
 * @file The file system of a host as the agent's logic sees it: small steps, each of which a fault can follow.
 *
 * Every step is atomic in itself and nothing more: `write` may be seen half-done by a reader or cut short by a crash, so state goes through
 * `agent/folder/json-files.ts`. Steps throw errors whose `code` is the system's (`ENOENT`, `EEXIST`, `ENOSPC`, …) unless they say otherwise.
 */

export interface FileFact {
  readonly kind: "file" | "folder" | "other";
  readonly sizeBytes: number;
  /** Wall clock. */
  readonly mtimeMs: number;
}

export interface NamedFact {
  readonly name: string;
  readonly fact: FileFact;
}

/** Bytes of one file: `position` from its start. */
export interface FileRange {
  readonly position: number;
  readonly length: number;
}

export interface WriteOptions {
  /** Readable by every user of the machine, not by the agent's alone. */
  readonly isShared?: boolean;
}

/** A file that only grows. */
export interface Appender {
  /** How many of the bytes were taken; fewer than all on a disk that is nearly full. Throws when none could be. */
  write(bytes: Uint8Array): number;
  close(): void;
}

export interface Files {
  /** The whole text; undefined when there is no such file. */
  readText(path: string): string | undefined;
  /** The bytes of the range that are there, possibly fewer; undefined when there is no such file. */
  readRange(path: string, range: FileRange): Buffer | undefined;
  /**
   * Reads a file that a job may have put anything in the place of. Undefined for a link, a pipe or a device, when reading fails, and when
   * `rangeOf` wants nothing. Never throws.
   */
  readUntrusted(
    path: string,
    rangeOf: (found: FileFact) => FileRange | undefined,
  ): Buffer | undefined;
  /** Creates or truncates. */
  write(path: string, text: string, options?: WriteOptions): void;
  /** As `write`; resolves when the content has reached the disk. */
  writeDurably(path: string, text: string): Promise<void>;
  /** Overwrites the first bytes of a file that exists and needs no new room on the disk. */
  overwrite(path: string, text: string): void;
  openAppender(path: string): Appender;
  /** Replaces `to`, in one step. */
  rename(from: string, to: string): void;
  /** A second name for a file, in one step. Throws `EEXIST` when the name is taken. */
  link(from: string, to: string): void;
  /** Removes a file, or a folder with everything in it; nothing happens when there is none. */
  remove(path: string): void;
  /** Names in a folder, in no fixed order; none when there is no such folder. */
  list(dir: string): readonly string[];
  /**
   * Of a folder that a user keeps: what the chosen names are, links not followed. Nothing where the folder is a link, or another user's, whatever is put in
   * its place meanwhile. Throws as `list`.
   */
  listOwned(
    dir: string,
    uid: number,
    choose: (names: readonly string[]) => readonly string[],
  ): readonly NamedFact[];
  /** Follows links; undefined when there is nothing. */
  stat(path: string): FileFact | undefined;
  /** With all its parents, each for the agent's user alone. Whether it is new. */
  makeFolder(path: string): boolean;
  /** Resolves when the names in the folder have reached the disk. */
  syncFolder(dir: string): Promise<void>;
  /** With every link resolved. */
  realPath(path: string): string;
  freeBytes(dir: string): number;
  /** Calls on a change in the folder; may miss some. The result ends it. */
  watch(dir: string, onChange: () => void): () => void;
  /** A name beside the path that no other living writer uses. */
  asideOf(path: string): string;
}
