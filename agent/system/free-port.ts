/** @file A TCP port on which nothing listens now. Loaded by the shim, so it needs nothing but Node. */

import { createServer } from "node:net";

/** It is not reserved; see `System.freePort`. */
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
