/** @file The console's own page and stream, fed by a made-up fleet instead of a history: for tests in a browser that need no Temporal. */

import { createHub, KEPT_CHANGES } from "../../console/http/hub.ts";
import { readPage } from "../../console/http/page-files.ts";
import { json, startHttpConsole } from "../../console/http/server.ts";
import { ordersBy } from "../../console/http/orders.ts";
import type { FleetClient } from "../../client/index.ts";
import type { Message, WhatIfAnswer } from "../../page/wire.ts";
import { packageRoot } from "../../workers/server/package-root.ts";
import type { MadeUpFleet } from "./made-up-fleet.ts";

export interface PageServer {
  /** The orders that came, as `hold job-1`. */
  readonly ordered: readonly string[];
  readonly url: string;
  readonly port: number;
  readonly tell: (message: Message) => void;
  /** Of all messages told, to one browser. */
  readonly toldBytes: () => number;
  readonly close: () => Promise<void>;
}

export async function servePage(fleet: MadeUpFleet, port = 0): Promise<PageServer> {
  const hub = createHub<Message>(fleet.snapshot, KEPT_CHANGES);
  let event = 0;
  const ordered: string[] = [];
  const fleetClient = noting(ordered);
  const served = await startHttpConsole({
    host: "127.0.0.1",
    port,
    rule: {},
    files: readPage(packageRoot()),
    streams: new Map([
      ["/api/events", (_url, response, seen) => hub.add(response, seen)],
      [
        "/api/job-events",
        ({ searchParams }, response) => {
          response.writeHead(200, { "Content-Type": "text/event-stream" });
          const page = fleet.jobPage(searchParams.get("job") ?? "");
          response.write(`data: ${JSON.stringify(page)}\n\n`);
        },
      ],
      [
        "/api/logs",
        ({ searchParams }, response) => {
          const rank = searchParams.get("rank") ?? "";
          response.writeHead(200, { "Content-Type": "text/event-stream" });
          for (const event of [{ attempt: 2 }, { text: linesOf(rank) }, { isEnd: true }])
            response.write(`data: ${JSON.stringify(event)}\n\n`);
        },
      ],
    ]),
    posts: new Map([
      ["/api/orders", ordersBy(() => fleetClient)],
      ["/api/what-if", { most: 65_536, answer: async () => await Promise.resolve(json(WAITS)) }],
    ]),
    answer: async ({ pathname, searchParams }) => {
      await Promise.resolve();
      switch (pathname) {
        case "/api/changes":
          return json({ job: searchParams.get("job"), changes: [CHANGE] });
        case "/api/shares":
          return json(fleet.shares());
        case "/api/host":
          return json(fleet.hostPast(searchParams.get("host") ?? ""));
        case "/api/past":
          return json({ message: fleet.snapshot(), ...timesOf(Number(searchParams.get("at"))) });
        default:
          return undefined;
      }
    },
  });
  return {
    ordered,
    url: `http://127.0.0.1:${String(served.port)}/`,
    port: served.port,
    tell: (message) => hub.tell(message, { runId: "run", event: (event += 1) }),
    toldBytes: hub.toldBytes,
    async close() {
      hub.close();
      await served.close();
    },
  };
}

/** A fleet that only notes what it was told. */
function noting(ordered: string[]): FleetClient {
  const note = <Said>(text: string, said: Said): Promise<Said> => {
    ordered.push(text);
    return Promise.resolve(said);
  };
  const played = {
    job: (job: string) => ({
      cancel: () => note(`cancel ${job}`, undefined),
      hold: () => note(`hold ${job}`, "held"),
      release: () => note(`release ${job}`, "waiting"),
      suspend: () => note(`suspend ${job}`, "stopping"),
      requeue: () => note(`requeue ${job}`, "stopping"),
    }),
    drain: (hosts: readonly string[], reason: string) =>
      note(`drain ${hosts.join(" ")}: ${reason}`, hosts),
    undrain: (hosts: readonly string[]) => note(`undrain ${hosts.join(" ")}`, hosts),
  };
  return played as unknown as FleetClient;
}

const linesOf = (rank: string): string =>
  Array.from(
    { length: 40 },
    (_, step) => `rank ${rank} step ${String(step)} loss 2.${String(99 - step)}\n`,
  ).join("");

const WAITS: WhatIfAnswer = {
  ...{ name: "what-if", kind: "waits" },
  message: "WaitingForGpus: it needs 8 GPUs; 6 are free in eu-h100, the most in one cluster.",
  facts: [
    ["Place", "10,001 of 10,001 in the queue"],
    ["Held by", "lease-12, lease-40"],
    ["Starts", "in 4m 10s to 1h 5m (80 %)"],
  ],
};

const CHANGE = { text: "ask for 4 GPUs instead of 8", lostGpuSeconds: 0, gpus: 4 };

const timesOf = (atMs: number): object => {
  return {
    ...{ atMs, beforeMs: atMs - 60_000, afterMs: atMs + 60_000 },
    past: { fromMs: atMs - 3_600_000, isMore: false },
  };
};
