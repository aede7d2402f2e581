/** @file How many things at once each name holds at a door: requests and greetings of a sender, connections of an address. */

export interface Shares {
  /** Counts one more of a name. What is returned gives it back, once; undefined where the name holds the most already. */
  readonly enter: (name: string, most: number) => (() => void) | undefined;
}

export function createShares(): Shares {
  const held = new Map<string, number>();
  return {
    enter(name, most) {
      const count = held.get(name) ?? 0;
      if (count >= most) return undefined;
      held.set(name, count + 1);
      let isHeld = true;
      return () => {
        if (!isHeld) return;
        isHeld = false;
        const left = (held.get(name) ?? 1) - 1;
        if (left > 0) held.set(name, left);
        else held.delete(name);
      };
    },
  };
}
