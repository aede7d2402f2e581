/** @file A web server that takes whatever is posted to it, and answers always the same. */

import { once } from "node:events";
import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo, Server } from "node:net";

/** `opened`: where it is noted, to be closed. */
export async function hookServer(
  opened: Server[],
  status: number,
  headers: Record<string, string> = {},
): Promise<{
  readonly got: readonly { readonly headers: IncomingHttpHeaders; readonly body: string }[];
  readonly port: string;
}> {
  const got: { headers: IncomingHttpHeaders; body: string }[] = [];
  const server = createServer((request, response) => {
    let body = "";
    request.on("data", (chunk: Buffer) => (body += chunk.toString()));
    request.on("end", () => {
      got.push({ headers: request.headers, body });
      response.writeHead(status, headers).end();
    });
  }).listen(0, "127.0.0.1");
  opened.push(server);
  await once(server, "listening");
  return { got, port: String((server.address() as AddressInfo).port) };
}
