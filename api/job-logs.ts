/**
 * @file Streams the output of a job to who may read it, as lines of JSON.
 *
 * Hosts show output to the key that has signed the job, so the service reads with the key that it, or its owner, has signed with. A reader that does not
 * take what it is sent is cut off.
 */

import type { ServerResponse } from "node:http";
import { once } from "node:events";
import { z } from "zod";
import type { LogOptions } from "../client/index.ts";
import type { ServiceLogLine } from "../client/service-client.ts";
import { OrbweaverError } from "../domain/values/failure.ts";
import { allowed } from "./job-facts.ts";
import type { Call } from "./route.ts";

const number = z
  .string()
  .regex(/^\d{1,9}$/)
  .transform(Number);

export const logQuery = z.strictObject({
  rank: z.union([z.literal("all"), number]).exactOptional(),
  task: number.exactOptional(),
  attempt: number.exactOptional(),
  tail: number.exactOptional(),
  follow: z
    .enum(["true", "false"])
    .transform((word) => word === "true")
    .exactOptional(),
});

/** So that neither end takes silence for the other's end. */
const SIGN_EVERY_MS = 20_000;
const READ_WITHIN_MS = 60_000;

export async function jobLogs(
  { caller, served, job, query, gone }: Call<z.output<typeof logQuery>>,
  response: ServerResponse,
): Promise<undefined> {
  const { signedBy } = await allowed(served, caller, { act: "read", jobId: job });
  const api = served.apiIdentity();
  const reader = signedBy === api.publicKey ? () => api : served.ownIdentity;
  const write = (line: ServiceLogLine): boolean => response.write(`${JSON.stringify(line)}\n`);
  const options: LogOptions = {
    ...query,
    reader,
    onAttempt: (attempt) => write({ attempt }),
    onAttemptEnd: (_job, attemptEnd) => write({ attemptEnd }),
    onDropped: (rank, bytes) => write({ dropped: [rank, bytes] }),
    onLost: (lost) => write({ text: "", lost }),
  };
  response.writeHead(200, { "Content-Type": "application/x-ndjson", "Cache-Control": "no-store" });
  const signs = setInterval(() => write({ text: "" }), SIGN_EVERY_MS);
  try {
    for await (const text of untilGone(served.client.job(job).logs(options), gone)) {
      if (write({ text })) continue;
      // Throws, and so cuts the reader off, when it takes nothing for so long.
      await once(response, "drain", { signal: AbortSignal.timeout(READ_WITHIN_MS) });
    }
    write({ isEnd: true });
  } catch (error) {
    const code = error instanceof OrbweaverError ? error.code : "NO_CONNECTION";
    write({ error: { code, message: error instanceof Error ? error.message : String(error) } });
  } finally {
    clearInterval(signs);
    response.end();
  }
  return undefined;
}

async function* untilGone(texts: AsyncIterable<string>, gone: AbortSignal): AsyncGenerator<string> {
  const iterator = texts[Symbol.asyncIterator]();
  const left = new Promise<undefined>((resolve) => {
    gone.addEventListener("abort", () => resolve(undefined), { once: true });
  });
  try {
    while (!gone.aborted) {
      const next = await Promise.race([iterator.next(), left]);
      if (next === undefined || next.done === true) return;
      yield next.value;
    }
  } finally {
    // A read of the agent ends by itself.
    void iterator.return?.().catch(() => undefined);
  }
}
