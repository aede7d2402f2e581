/** @file Joins this process's standard streams and signals to an exec session until that is over. */

import type { SessionEvents, UserSession } from "../../client/session.ts";
import type { SessionExit, SessionSignal, TerminalSize } from "../../protocol/session-contract.ts";
import { CHANNEL } from "../../streams/words.ts";
import type { CommandContext } from "../command/command-context.ts";

const PASSED_ON = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"] as const;

/** The size of this process's terminal, or a usual one. */
export const terminalSize = ({ io: { stdout } }: CommandContext): TerminalSize => ({
  ...{ rows: stdout.rows ?? 24, columns: stdout.columns ?? 80 },
});

/** Byte of Ctrl-C at a terminal that passes it on as it is. */
const CTRL_C = 3;

/** With a terminal at the other end, what is typed goes there as it is, Ctrl-C included, and sizes follow. */
export async function joinStandardStreams(
  context: CommandContext,
  hasTerminal: boolean,
  open: (events: SessionEvents) => UserSession,
): Promise<SessionExit | undefined> {
  const { stdout, stderr } = context.io;
  const { stdin } = process;
  const isRaw = hasTerminal && stdin.isTTY;
  context.endsByItself();
  let isPaired = false;
  /** What would be said to the other end reaches nobody while that is away; so Ctrl-C ends this command. */
  const leave = (): boolean => {
    if (isPaired) return false;
    context.say("the other end is away; what runs there is hung up within a minute");
    session.close();
    return true;
  };
  const session = open({
    onPaired: (paired) => {
      isPaired = paired;
    },
    onData: (channel, bytes, taken) => {
      const stream = channel === CHANNEL.errors ? stderr : stdout;
      stream.write(bytes, () => taken());
    },
    onRoom: (channel) => {
      if (channel === CHANNEL.input) stdin.resume();
    },
  });
  const read = (bytes: Buffer): void => {
    if (isRaw && bytes.includes(CTRL_C) && leave()) return;
    if (!session.write(CHANNEL.input, bytes)) stdin.pause();
  };
  const ended = (): void => session.end(CHANNEL.input);
  stdin.on("data", read);
  stdin.on("end", ended);
  const giveBack = takeSignals((signal) => {
    if (signal !== "INT" || !leave()) session.say({ signal });
  });
  const resized = (): void => session.say({ size: terminalSize(context) });
  if (hasTerminal) process.on("SIGWINCH", resized);
  if (isRaw) stdin.setRawMode(true);
  try {
    return await session.over;
  } finally {
    giveBack();
    process.off("SIGWINCH", resized);
    if (isRaw) stdin.setRawMode(false);
    stdin.off("data", read);
    stdin.off("end", ended);
    stdin.pause();
  }
}

/** Two of Ctrl-C end a command of ours; here each is the other command's. Returns what undoes it. */
export function takeSignals(tell: (signal: SessionSignal) => void): () => void {
  const former = process.listeners("SIGINT");
  process.removeAllListeners("SIGINT");
  const listeners = PASSED_ON.map((signal) => {
    const listener = (): void => tell(signal);
    process.on(`SIG${signal}`, listener);
    return (): void => void process.off(`SIG${signal}`, listener);
  });
  return () => {
    for (const forget of listeners) forget();
    for (const listener of former) process.on("SIGINT", listener);
  };
}
