/** @file A terminal of a session: each key goes through the terminal to a program, which sends it back. */

import { openUserSession } from "../../client/session.ts";
import { CHANNEL } from "../../streams/words.ts";
import { openHeard } from "./heard.ts";
import { IDLE_MS, type InteractiveSite } from "./site.ts";

export interface EchoTerminal {
  /** Milliseconds until the key is back. Throws where another one comes, or none. */
  readonly type: (key: string) => Promise<number>;
  readonly close: () => Promise<void>;
}

/** The terminal itself echoes nothing, so what comes back was the program's. */
const ECHO = ["sh", "-c", "stty raw -echo; printf '>'; exec cat"];

export async function openTerminal({ address, job }: InteractiveSite): Promise<EchoTerminal> {
  const heard = openHeard();
  const start = {
    command: ECHO,
    terminal: { rows: 24, columns: 80, name: "xterm" },
    idleMs: IDLE_MS,
  };
  const session = openUserSession(
    address,
    { job, rank: 0, verb: "exec", start },
    {
      onData(_channel, bytes, taken) {
        taken();
        heard.add(bytes);
      },
      onRoom: () => undefined,
    },
  );
  const over = heard.endsWith(session.over);
  const close = async (): Promise<void> => {
    session.close();
    await over;
  };
  try {
    await heard.until(">");
  } catch (error) {
    await close();
    throw error;
  }
  return {
    async type(key) {
      const typedMs = performance.now();
      session.write(CHANNEL.input, Buffer.from(key));
      await heard.until(key);
      return performance.now() - typedMs;
    },
    close,
  };
}
