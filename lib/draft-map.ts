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
      own ??= copyOf(before);
      return own;
    },
  };
}

/** As `new Map(map)`, which makes an array of each entry on the way. */
export function copyOf<K, V>(map: ReadonlyMap<K, V>): Map<K, V> {
  const copy = new Map<K, V>();
  map.forEach((value, key) => {
    copy.set(key, value);
  });
  return copy;
}
