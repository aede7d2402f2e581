/**
 * @file The output of a job's rank, live, to a browser: read as `orbweaver logs --follow` reads it, and sent as events.
 *
 * Unlike all else of the console this asks: the hosts of the job read their logs for as long as a browser looks. So readers are few, and one that
 * takes nothing is cut off.
 */

import { once } from "node:events";
import type { ServerResponse } from "node:http";
import type { FleetClient } from "../../client/index.ts";
import type { LogEvent } from "../../page/wire.ts";

const MOST_READERS = 16;
const TAIL_LINES = 500;
const TAKEN_WITHIN_MS = 60_000;

export interface LogStreams {
  readonly add: (url: URL, response: ServerResponse) => void;
}

export function createLogStreams(actor: () => FleetClient): LogStreams {
  let readers = 0;

  return {
    add({ searchParams }, response) {
      if (readers >= MOST_READERS) {
        response.writeHead(503, { "Retry-After": "10" }).end();
        return;
      }
      readers += 1;
      const rank = Number(searchParams.get("rank") ?? "0");
      const job = searchParams.get("job") ?? "";
      void follow(response, { job, rank: Number.isInteger(rank) && rank >= 0 ? rank : 0 }).finally(
        () => (readers -= 1),
      );
    },
  };

  async function follow(
    response: ServerResponse,
    { job, rank }: { readonly job: string; readonly rank: number },
  ): Promise<void> {
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    // The browser must not read it all again by itself.
    response.write("retry: 3600000\n\n");
    const left = new Promise<"left">((resolve) => response.once("close", () => resolve("left")));
    const write = (event: LogEvent): boolean =>
      response.write(`data: ${JSON.stringify(event)}\n\n`);
    try {
      const texts = actor()
        .job(job)
        .logs({
          ...{ rank, follow: true, tail: TAIL_LINES },
          onAttempt: ({ attempt }) => void write({ attempt }),
        });
      const iterator = texts[Symbol.asyncIterator]();
      for (;;) {
        const next = await Promise.race([iterator.next(), left]);
        if (next === "left") {
          // A read of the host ends by itself.
          void iterator.return?.()?.catch(() => undefined);
          return;
        }
        if (next.done === true) break;
        if (!write({ text: next.value }))
          await once(response, "drain", { signal: AbortSignal.timeout(TAKEN_WITHIN_MS) });
      }
      write({ isEnd: true });
    } catch (error) {
      write({ isEnd: true, trouble: error instanceof Error ? error.message : String(error) });
    }
    response.end();
  }
}
