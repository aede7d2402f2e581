/** @file What a session has said, word for word: each wait is for an exact text, and fails for another one, for none in time, and at the session's end. */

export interface Heard {
  readonly add: (bytes: Buffer) => void;
  /** Waits fail once the session is over; never fails itself. */
  readonly endsWith: (over: Promise<unknown>) => Promise<void>;
  /** Returns when this has come, as what comes next. */
  readonly until: (wanted: string) => Promise<void>;
}

const WITHIN_MS = 120_000;

export function openHeard(): Heard {
  let text = "";
  let end: Error | undefined;
  let wake: () => void = () => undefined;
  const fail = (error: Error): void => {
    end ??= error;
    wake();
  };
  return {
    add(bytes) {
      text += bytes.toString("latin1");
      wake();
    },
    endsWith: (over) =>
      over.then(
        () => fail(new Error("the session has ended")),
        (error: unknown) => fail(error instanceof Error ? error : new Error(String(error))),
      ),
    async until(wanted) {
      const late = setTimeout(
        () => fail(new Error(`${JSON.stringify(wanted)} did not come`)),
        WITHIN_MS,
      );
      try {
        for (;;) {
          if (text.startsWith(wanted)) break;
          if (!wanted.startsWith(text))
            throw new Error(`${JSON.stringify(text)} came for ${JSON.stringify(wanted)}`);
          if (end !== undefined) throw end;
          await new Promise<void>((resolve) => {
            wake = resolve;
          });
        }
        text = text.slice(wanted.length);
      } finally {
        clearTimeout(late);
      }
    },
  };
}
