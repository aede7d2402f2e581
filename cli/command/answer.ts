/** @file The answer of a verb: a document with `--json`, else text. */

import type { CommandContext } from "./command-context.ts";
import type { ConnectionOptionValues } from "./connection-options.ts";
import type { Session } from "./session.ts";

interface Answer {
  readonly document: unknown;
  readonly text: () => string;
}

export interface AnswerValues extends ConnectionOptionValues {
  readonly json?: boolean;
}

/** Runs `work` in a session and prints its answer. */
export async function answerInSession(
  context: CommandContext,
  values: AnswerValues,
  work: (session: Session) => Promise<Answer>,
): Promise<void> {
  await context.withSession(values, async (session) => {
    const { document, text } = await work(session);
    if (values.json === true) context.printJson(document);
    else context.print(text());
  });
}
