/** @file Which listening sockets of the kernel's tables loopback reaches. */

import { expect, it } from "vitest";
import { parseListeners } from "../../agent/sessions/lease-ports.ts";

const row = (local: string, state: string, inode: number): string =>
  `   0: ${local} 00000000:0000 ${state} 00000000:00000000 00:00000000 00000000  1000        0 ${String(inode)} 1 0000000000000000 100 0 0 10 0`;

it("takes sockets that listen at loopback or everywhere, of both families, and no others", () => {
  const table = [
    "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode",
    row("0100007F:22B8", "0A", 1),
    row("00000000:22B9", "0A", 2),
    row("0500A8C0:22BA", "0A", 3),
    row("0100007F:22BB", "01", 4),
    row("00000000000000000000000000000000:22BC", "0A", 5),
    row("00000000000000000000000001000000:22BD", "0A", 6),
    row("0000000000000000FFFF00000100007F:22BE", "0A", 7),
    "",
  ].join("\n");
  expect(parseListeners(table)).toEqual([
    { port: 8888, address: "127.0.0.1", inode: "1" },
    { port: 8889, address: "127.0.0.1", inode: "2" },
    { port: 8892, address: "::1", inode: "5" },
    { port: 8893, address: "::1", inode: "6" },
    { port: 8894, address: "127.0.0.1", inode: "7" },
  ]);
});
