/** @file Addresses of web servers: one written form, read as a parser of URLs reads it; and what lies under what. */

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { liesUnder, readWebAddress } from "../../../domain/values/web-address.ts";

const covers = (under: string, address: string): boolean => {
  const [one, other] = [readWebAddress(address), readWebAddress(under)];
  return one !== undefined && other !== undefined && liesUnder(one, other);
};

describe("a web address", () => {
  it.each([
    ["https://a.example", 443, "/"],
    ["https://a.example/x?q=1&r=/..", 443, "/x"],
    ["http://a.example:8080/x/y%20z", 8_080, "/x/y%20z"],
    ["http://127.0.0.1/x", 80, "/x"],
    ["https://a.example/..x/y;z/%c3%a9", 443, "/..x/y;z/%c3%a9"],
    ["https://[::1]:8443/", 8_443, "/"],
  ])("%s is read", (text, port, path) => {
    expect(readWebAddress(text)).toMatchObject({ port, path });
  });

  it.each([
    ...["ftp://a", "//a", "https:/a", "https://", "https:///a", "HTTPS://a", "https://A.example/"],
    ...["https://u@a/", "https://u:p@a/", "https://a/#x", "https://a\\b/", "https://a/\\..", "a"],
    ...[
      "https://a/../b",
      "https://a/./b",
      "https://a/%2e%2e/b",
      "https://a/..%2fb",
      "https://a/%5c",
    ],
    ...[
      "https://a/%252e",
      "https://a/%zz",
      "https://a/%",
      "https://a b/",
      "https://a/ b",
      "https://a/\n",
    ],
    ...["https://a/b/..;/c", "https://a/.;x/b", "https://a/b/%c0%ae%C0%AE/c", "https://a/%c1%9c"],
    ...["https://a/b/..%00/c", "https://a/%0d%0ax", "https://a/%7f"],
    ...[
      "http://2130706433/",
      "http://0x7f.1/",
      "http://127.1/",
      "http://0177.0.0.1/",
      "http://1.2.3.256/",
    ],
    ...[
      "http://a..b/",
      "http://a./",
      "http://-a/",
      "http://a:0/",
      "http://a:65536/",
      "http://a:080/",
    ],
    ...[
      "http://ａ.example/",
      `https://a/${"x".repeat(2_000)}`,
      "http://[::1%eth0]/",
      " https://a/",
    ],
  ])("%j is refused", (text) => {
    expect(readWebAddress(text)).toBeUndefined();
  });

  it("is what a parser of URLs makes of it, whatever was written", () => {
    const piece = fc.constantFrom(
      ...[
        "https://",
        "http://",
        "a",
        "b.c",
        "127.0.0.1",
        "[::1]",
        "0x7f",
        "1",
        ":",
        "80",
        "8080",
        "/",
      ],
      ...["..", ".", "%2e", "%2F", "\\", "@", "?", "#", "%41", "A", "x", " ", "\t", "é", ";", "~"],
    );
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const text = pieces.join("");
        const read = readWebAddress(text);
        if (read === undefined) return;
        const url = new URL(text);
        expect(`${read.scheme}:`).toBe(url.protocol);
        expect(read.host).toBe(url.hostname);
        expect(read.port).toBe(Number(url.port || (read.scheme === "https" ? 443 : 80)));
        expect(read.path).toBe(url.pathname);
        expect([url.username, url.password, url.hash]).toEqual(["", "", ""]);
      }),
      { numRuns: 20_000 },
    );
  });

  it.each([
    ["https://a", "https://a/x", true],
    ["https://a/", "https://a:443/x?q", true],
    ["https://a/b", "https://a/b", true],
    ["https://a/b", "https://a/b/c", true],
    ["https://a/b", "https://a/b?c", true],
    ["https://a/b/", "https://a/b/c", true],
    ["https://a/b", "https://a/bc", false],
    ["https://a/b/", "https://a/b", false],
    ["https://a/b", "https://a/", false],
    ["https://a", "http://a/", false],
    ["https://a", "https://a:444/", false],
    ["https://a", "https://a.b/", false],
    ["https://a", "https://b.a/", false],
    ["https://a/b", "https://a/B/c", false],
  ])("%s covers %s: %s", (under, address, want) => {
    expect(covers(under, address)).toBe(want);
  });
});
