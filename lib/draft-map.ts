/** @file A map that is copied before its first change, so that a change of many maps costs no copy of the others. */

export interface DraftMap<K, V> {
  /** With all changes so far; the map that the draft began with while there is none. */
  readonly now: ReadonlyMap<K, V>;
  /** The draft's own copy. Cost: O(size) the first time, O(1) afterwards. */
  readonly write: () => Map<K, V>;
}

export function draftOf<K, V>(before: ReadonlyMap<K, V> = new Map<K, V>()): DraftMap<K, V> {
  let own: Map<K, V> | undefined;
  return {
    get now() {
      return own ?? before;
    },
    write() {
      own ??= new Map(before);
      return own;
    },
  };
}
