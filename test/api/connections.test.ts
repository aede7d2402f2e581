/** Level 1: nobody shuts others out of a door by connections that say nothing. */

import { once } from "node:events";
import { createServer, type Server } from "node:http";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import { networkOf, shareConnections } from "../../api/connections.ts";

const closings: (() => void)[] = [];
afterEach(() => {
  for (const close of closings.splice(0)) close();
});

async function opened(most: number, unknown = 100): Promise<{ port: number; refused: string[] }> {
  const server: Server = createServer((request, response) => {
    if (request.headers.authorization !== undefined) crowd.known(request.socket);
    response.end("ok");
  });
  const refused: string[] = [];
  const crowd = shareConnections(server, {
    ...{ most, unknown },
    onRefused: (socket) => void refused.push(socket.remoteAddress ?? ""),
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  closings.push(() => {
    server.closeAllConnections();
    server.close();
  });
  const address = server.address();
  return { port: typeof address === "object" && address !== null ? address.port : 0, refused };
}

/** From another address of this machine. */
async function connected(port: number, localAddress: string): Promise<Socket> {
  const socket = connect({ port, host: "127.0.0.1", localAddress });
  socket.on("error", () => undefined);
  closings.push(() => socket.destroy());
  await once(socket, "connect");
  return socket;
}

const answered = async (socket: Socket): Promise<string> => {
  let said = "";
  socket.on("data", (part: Buffer) => (said += part.toString()));
  socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  await once(socket, "close");
  return said;
};

describe.runIf(process.platform === "linux")("a door", () => {
  it("is open to others while one address holds all that it may", async () => {
    const { port, refused } = await opened(3);
    const first = await connected(port, "127.0.0.2");
    for (let count = 1; count < 3; count += 1) await connected(port, "127.0.0.2");
    const beyond = await connected(port, "127.0.0.2");
    expect(await answered(beyond)).toBe("");
    expect(refused).toEqual(["127.0.0.2"]);
    expect(await answered(await connected(port, "127.0.0.3"))).toContain("200 OK");
    // One that ends makes room.
    expect(await answered(first)).toContain("200 OK");
    expect(await answered(await connected(port, "127.0.0.2"))).toContain("200 OK");
  });
});

it("is open to whoever shows a token, however many connections of however many addresses say nothing", async () => {
  const { port, refused } = await opened(100, 3);
  const words = "GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n";
  const known = await connected(port, "127.0.0.1");
  known.write(words);
  await once(known, "data");
  const silent: Socket[] = [];
  for (let count = 0; count < 3; count += 1) silent.push(await connected(port, "127.0.0.1"));
  const left = silent.map((socket) => once(socket, "close"));
  for (let count = 0; count < 4; count += 1) {
    const next = await connected(port, "127.0.0.1");
    next.write(words);
    await once(next, "data");
  }
  await left[0];
  expect(refused).toEqual(["127.0.0.1"]);
  // The three that are left, and the five that are known.
  known.write(words);
  await once(known, "data");
});

describe("networkOf", () => {
  it.each([
    ["10.1.2.3", "10.1.2.3"],
    ["::ffff:10.1.2.3", "10.1.2.3"],
    ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
    ["2001:db8:1:2::9", "2001:db8:1:2"],
    ["2001:0db8::1", "2001:db8:0:0"],
    ["fe80::1%eth0", "fe80:0:0:0"],
    ["::1", "0:0:0:0"],
    ["", ""],
  ])("%j is of %j", (address, want) => {
    expect(networkOf(address)).toBe(want);
  });
});
