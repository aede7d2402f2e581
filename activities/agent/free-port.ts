/** @file A port that nobody listens on now. Loaded by the shim, so it needs nothing but Node. */

import { createServer } from "node:net";

/** It is not held: between here and the start somebody may take it, which fails what was to listen there. */
export async function freePort(): Promise<number> {
  const server = createServer();
  const port = await new Promise<number>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, () => {
      const address = server.address();
      resolve(typeof address === "object" && address !== null ? address.port : 0);
    });
  });
  await new Promise((resolve) => server.close(resolve));
  return port;
}
