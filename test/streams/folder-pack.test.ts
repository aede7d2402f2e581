/** @file Packed folders: they come back as they were, equal ones are equal bytes, and nothing is written outside. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  packFolder,
  staysInside,
  unpackFolder,
  type PackedEntry,
} from "../../streams/folder-pack.ts";

const name = fc.stringMatching(/^[a-zA-Z0-9_é -]{1,6}$/).filter((text) => text.trim() !== "");
const entries = fc
  .uniqueArray(fc.record({ name, content: fc.uint8Array(), isExecutable: fc.boolean() }), {
    selector: (entry) => entry.name,
  })
  .map((files) =>
    files.map(({ name: path, content, isExecutable }, at): PackedEntry => {
      if (at % 5 === 3) return { path, target: `./${path}-x` };
      if (at % 5 === 4) return { path };
      return { path: at % 2 === 0 ? path : `in/${path}`, content, isExecutable };
    }),
  );

/** What a stranger may have sent: rows of any kind before the bytes. */
function forged(rows: unknown, content = ""): Buffer {
  const list = Buffer.from(JSON.stringify(rows));
  const head = Buffer.alloc(4);
  head.writeUInt32BE(list.length);
  return Buffer.concat([head, list, Buffer.from(content)]);
}

describe("a packed folder", () => {
  it("comes back as it was, in the order of its paths", () => {
    fc.assert(
      fc.property(entries, (all) => {
        const back = unpackFolder(packFolder(all));
        const plain = (list: readonly PackedEntry[]) =>
          list.map((each) => ("content" in each ? { ...each, content: [...each.content] } : each));
        const sorted = [...all].sort((one, other) => (one.path < other.path ? -1 : 1));
        expect(plain(back)).toEqual(plain(sorted));
      }),
    );
  });

  it("has the same bytes in whatever order its entries are given", () => {
    fc.assert(
      fc.property(entries, (all) => {
        expect(packFolder([...all].reverse()).equals(packFolder(all))).toBe(true);
      }),
    );
  });

  it.each([
    { rows: [{ path: "../a", size: 1 }], content: "x", want: /leads out/ },
    { rows: [{ path: "/a", size: 1 }], content: "x", want: /leads out/ },
    { rows: [{ path: "a/./b", size: 1 }], content: "x", want: /leads out/ },
    { rows: [{ path: "a", target: "/etc" }], want: /leads out/ },
    { rows: [{ path: "a/b", target: "../../c" }], want: /leads out/ },
    {
      rows: [
        { path: "a", target: "b" },
        { path: "a/c", size: 0 },
      ],
      want: /through a link/,
    },
    { rows: [{ path: "a", size: 2 }], content: "x", want: /cut off/ },
    { rows: [{ path: "a", size: 1 }], content: "xy", want: /bytes of no file/ },
    { rows: [{ path: "a", size: -1 }], want: /another form/ },
    { rows: { path: "a" }, want: /another form/ },
  ])("is refused with $rows", ({ rows, content, want }) => {
    expect(() => unpackFolder(forged(rows, content))).toThrow(want);
  });

  it.each([
    ["a", "b", true],
    ["a/b", "../c", true],
    ["a/b", "../../c", false],
    ["a", "..", false],
    ["a", "x/../../y", false],
    ["a", "/y", false],
  ])("a link at %s to %s stays inside: %s", (path, target, want) => {
    expect(staysInside(path, target)).toBe(want);
  });
});
