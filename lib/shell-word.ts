/** @file A word as a POSIX shell reads it back. */

export const shellQuoted = (word: string): string => `'${word.replaceAll("'", "'\\''")}'`;
