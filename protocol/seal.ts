/**
 * @file How what comes to a workflow was encrypted, and why a worker with keys does not hear the rest.
 *
 * Codecs read everything, with or without keys, because old histories must replay. They only note on each payload how it came: from the payload alone, so a
 * replay sees the same. Workflow code hands a flaw on to the activity that judges, and the verdict, of the keys of that moment, is in history.
 */

/** Of an activity's task: how the input of the run that asks for it came (`CameFlawed`), until the run knows that it was heard. */
export const INPUT_FLAW_HEADER = "orbweaver-input-flaw";

/** In the metadata of a decoded payload that was encrypted; nobody else's entry of this name passes a codec. */
export const SEAL_KEY = "orbweaver-seal";
/** `bound`: for the workflow that reads it, and for no other. */
export type Seal = "bound" | "unbound";

/** `open`: not encrypted. `unbound`: what any other workflow could read, too. `unreadable`: damaged, or of another workflow. */
export type SealFlaw = "open" | "unbound" | "unreadable";

interface Sealed {
  readonly metadata?: Readonly<Record<string, Uint8Array>> | null;
}

const FIRST_OF_BOUND = "b".charCodeAt(0);
const ENCRYPTED = /^binary\/encrypted$/;

/** The worst of the payloads as a codec left them; undefined where each is bound, or there is none. */
export function flawOf(payloads: readonly Sealed[] | null | undefined): SealFlaw | undefined {
  let worst: SealFlaw | undefined;
  for (const { metadata } of payloads ?? []) {
    const seal = metadata?.[SEAL_KEY];
    if (seal?.[0] === FIRST_OF_BOUND) continue;
    if (seal !== undefined) worst ??= "unbound";
    else if (isEncrypted(metadata?.["encoding"])) return "unreadable";
    else worst = "open";
  }
  return worst;
}

const isEncrypted = (encoding: Uint8Array | undefined): boolean =>
  encoding !== undefined && ENCRYPTED.test(String.fromCharCode(...encoding.subarray(0, 32)));

/** Of a process that has keys. */
export interface KeysInUse {
  /** Whether what it encrypts is bound to its workflow. */
  readonly isBinding: () => boolean;
  /** When its key file was written: who spoke before may not have had these keys. */
  readonly sinceMs: () => number;
}

/** What speaks for a word although it has a flaw. */
export interface SaidBy {
  /** When it was said, where nobody can claim another time. */
  readonly atMs?: number;
  /** A signature proves that it was said to this workflow. */
  readonly isSigned?: boolean;
}

/** How something came that had a flaw, as workflow code hands it to the activity that judges; nothing is handed where it had none, and former releases hand nothing. */
export interface CameFlawed {
  readonly flaw: SealFlaw;
  /** As of `SaidBy`. */
  readonly atMs?: number;
}

/** Why it is not heard; undefined where it is. */
export function sealProblem(
  keys: KeysInUse | undefined,
  flaw: SealFlaw | undefined,
  { atMs, isSigned = false }: SaidBy = {},
): string | undefined {
  if (keys === undefined || flaw === undefined) return undefined;
  if (flaw === "unreadable")
    return "what it is encrypted with is damaged, or was made for another workflow";
  if (atMs !== undefined && atMs < keys.sinceMs()) return undefined;
  if (flaw === "open")
    return "it is not encrypted, and this fleet has keys: give its sender the key file (ORBWEAVER_ENCRYPTION_KEYS)";
  return keys.isBinding() && !isSigned
    ? "its encryption is not bound to this workflow: its sender needs the newest key of the key file (ORBWEAVER_ENCRYPTION_KEYS)"
    : undefined;
}
