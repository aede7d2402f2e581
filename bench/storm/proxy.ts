/**
 * @file The network between one process and the Temporal server, which the storm can cut.
 *
 * Cut by `reset`, connections break and new ones are refused, as when a machine is unplugged near by; cut by `hang`, nothing
 * arrives any more and no end is notified, as when a router drops packets. Mended, hung connections go on where they were.
 */

import { connect, createServer, type AddressInfo, type Socket } from "node:net";

type CutKind = "reset" | "hang";

export interface Proxy {
  readonly address: string;
  readonly isCut: () => boolean;
  readonly cut: (kind: CutKind) => void;
  readonly mend: () => void;
  readonly close: () => Promise<void>;
}

interface Line {
  readonly near: Socket;
  /** Absent while the connection was opened during a cut. */
  far: Socket | undefined;
}

const LOOPBACK = "127.0.0.1";

export async function openProxy(target: { readonly port: number }): Promise<Proxy> {
  const lines = new Set<Line>();
  let cutBy: CutKind | undefined;

  const server = createServer((near) => {
    const line: Line = { near, far: undefined };
    near.on("error", () => undefined);
    if (cutBy === "reset") {
      near.resetAndDestroy();
      return;
    }
    lines.add(line);
    near.once("close", () => end(line));
    near.pause();
    if (cutBy === undefined) lead(line);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, LOOPBACK, resolve);
  });
  const { port } = server.address() as AddressInfo;

  function lead(line: Line): void {
    const far = connect({ host: LOOPBACK, port: target.port });
    line.far = far;
    far.on("error", () => undefined);
    far.once("close", () => end(line));
    line.near.pipe(far);
    far.pipe(line.near);
  }

  function end(line: Line): void {
    // Through a cut that hangs, the end of one side is not heard on the other.
    if (cutBy === "hang") return;
    lines.delete(line);
    line.near.destroy();
    line.far?.destroy();
  }

  return {
    address: `${LOOPBACK}:${String(port)}`,
    isCut: () => cutBy !== undefined,
    cut: (kind) => {
      cutBy = kind;
      for (const { near, far } of lines) {
        if (kind === "reset") {
          near.resetAndDestroy();
          far?.resetAndDestroy();
        } else {
          near.unpipe();
          far?.unpipe();
          near.pause();
          far?.pause();
        }
      }
      if (kind === "reset") lines.clear();
    },
    mend: () => {
      cutBy = undefined;
      for (const line of [...lines]) {
        const { near, far } = line;
        if (near.destroyed || far?.destroyed === true) end(line);
        else if (far === undefined) lead(line);
        else {
          near.pipe(far);
          far.pipe(near);
        }
      }
    },
    close: async () => {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const { near, far } of lines) {
        near.destroy();
        far?.destroy();
      }
      await closed;
    },
  };
}
