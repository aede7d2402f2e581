/**
 * @file The control channel of a session: a line of JSON for each word, in order and without loss like all channels.
 */

/** Channel of the words; of exec: standard input, output and errors. Forwarded connections count on from `FIRST_CONNECTION`. */
export const CHANNEL = { words: 0, input: 1, output: 2, errors: 3 } as const;
export const FIRST_CONNECTION = 16;

const MAX_WORD_BYTES = 131_072;

export const wordBytes = (word: object): Buffer => Buffer.from(`${JSON.stringify(word)}\n`);

/** Gives bytes in; whole words come out. Throws for one that is too long or no JSON. */
export function wordReader(onWord: (word: unknown) => void): (bytes: Buffer) => void {
  let rest = Buffer.alloc(0);
  return (bytes) => {
    rest = Buffer.concat([rest, bytes]);
    for (let at = rest.indexOf(10); at !== -1; at = rest.indexOf(10)) {
      const line = rest.subarray(0, at);
      rest = rest.subarray(at + 1);
      onWord(JSON.parse(line.toString("utf8")));
    }
    if (rest.length > MAX_WORD_BYTES) throw new Error("a word is too long");
  };
}

/** Where a relay takes in agents and clients. */
export const AGENT_PATH = "/v1/sessions/agent";
export const CLIENT_PATH = "/v1/sessions";
