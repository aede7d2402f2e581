/** @file What an agent refuses of an order before it asks for the submitter: an image that no job file can state, under every trust. */

import { expect, it } from "vitest";
import { submitterCheck } from "../../workers/submitter-check.ts";

it.each(["namespace", "own-user", "policy"])(
  "under trust %s, a mount that would be two fields is refused",
  async (kind) => {
    const check = submitterCheck({} as never, { trust: { kind } } as never, () => false);
    const mounts = [{ source: "/data/x,source=/", target: "/x", isReadOnly: true }];
    const container = {
      ...{ image: "/images/a", runtime: "auto", mounts },
      ...{ user: "host", pullTimeoutMs: 1_000 },
    };
    expect(await check({ gang: [], run: { container } } as never)).toMatch(
      /run\.container\.mounts\.0/,
    );
  },
);
