/** @file Consoles of a live fleet whose calls to Temporal are counted, and browsers that look at them. */

import type { Client } from "@temporalio/client";
import { get, type ClientRequest } from "node:http";
import { startConsole } from "../../console/console.ts";
import { readPage } from "../../console/http/page-files.ts";
import { createConverters } from "../../workers/codec/converters.ts";
import { packageRoot } from "../../workers/server/package-root.ts";

export interface CountedConsole {
  /** With a slash at its end. */
  readonly url: string;
  /** Of all kinds, from its start on. */
  readonly calls: () => number;
  readonly close: () => Promise<void>;
}

export async function openConsole(
  client: Client,
  fleet: string,
  say: (line: string) => void,
): Promise<CountedConsole> {
  let calls = 0;
  const { port, close } = await startConsole({
    client: countedClient(client, () => (calls += 1)),
    ...{ fleet, say, rule: {}, host: "127.0.0.1", port: 0 },
    codecs: createConverters().worker.payloadCodecs ?? [],
    files: readPage(packageRoot()),
  });
  return { url: `http://127.0.0.1:${String(port)}/`, calls: () => calls, close };
}

/** Each call of the service is told before it is made; so are those of the client's own parts. */
export function countedClient(client: Client, seen: () => void): Client {
  const counted = <Service extends object>(service: Service): Service =>
    new Proxy(service, {
      get(target, name) {
        const found: unknown = Reflect.get(target, name, target);
        if (typeof found !== "function") return found;
        return (...given: unknown[]): unknown => {
          seen();
          return Reflect.apply(found, target, given);
        };
      },
    });
  const service = counted(client.workflowService);
  const workflow = counted(client.workflow);
  return new Proxy(client, {
    get(target, name) {
      if (name === "workflowService") return service;
      if (name === "workflow") return workflow;
      return Reflect.get(target, name, target) as unknown;
    },
  });
}

/** What asks for all that the page asks for, and reads its stream to no end; it draws nothing. */
export interface BareBrowser {
  /** Bytes of the stream until now. */
  readonly bytes: () => number;
  readonly close: () => void;
}

const PAGE_PATHS = ["", "page.css", "page.js", "icon.svg"] as const;

export async function openBareBrowser(url: string): Promise<BareBrowser> {
  for (const path of PAGE_PATHS) await (await fetch(url + path)).arrayBuffer();
  let bytes = 0;
  const request = await new Promise<ClientRequest>((resolve, reject) => {
    const asked = get(`${url}api/events`, (response) => {
      response.on("data", (part: Buffer) => (bytes += part.length));
      resolve(asked);
    });
    asked.on("error", reject);
  });
  return { bytes: () => bytes, close: () => void request.destroy() };
}
