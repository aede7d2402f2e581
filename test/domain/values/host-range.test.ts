/** @file Ranges in host names. */

import { describe, expect, it } from "vitest";
import { expandHosts, MAX_HOSTS } from "../../../domain/values/host-range.ts";

const names = (text: string): string => {
  const expanded = expandHosts(text);
  return expanded.kind === "read" ? expanded.value.join(" ") : `! ${expanded.message}`;
};

describe("a host name", () => {
  it.each([
    ["h1", "h1"],
    ["h100-[26-29]", "h100-26 h100-27 h100-28 h100-29"],
    ["node[001-003,010]", "node001 node002 node003 node010"],
    ["n[8-11]", "n8 n9 n10 n11"],
    ["n[08-11]", "n08 n09 n10 n11"],
    ["r[1-2]n[1-2].eu", "r1n1.eu r1n2.eu r2n1.eu r2n2.eu"],
    ["n[5]", "n5"],
    ["n[1,1]", "n1 n1"],
    ["n[3-1]", '! range "3-1" runs backwards'],
    ["n[1-]", '! "n[1-]" is not a host name'],
    ["n[a-b]", '! "n[a-b]" is not a host name'],
    ["n[1", '! "n[1" is not a host name'],
    ["a/b", '! "a/b" is not a host name'],
    ["a b", '! "a b" is not a host name'],
    ["", '! "" is not a host name'],
    ["-x", '! "-x" is not a host name'],
    ["n[1-10001]", '! "n[1-10001]" names more than 10000 hosts'],
    ["n[0-999999999999]", '! "n[0-999999999999]" names more than 10000 hosts'],
    ["n[1-101][1-101]", '! "n[1-101][1-101]" names more than 10000 hosts'],
  ])("%s names %s", (text, want) => {
    expect(names(text)).toBe(want);
  });

  it("may name as many hosts as a fleet may have", () => {
    const expanded = expandHosts(`n[1-${MAX_HOSTS}]`);
    expect(expanded).toMatchObject({ kind: "read" });
    expect(expanded.kind === "read" && new Set(expanded.value).size).toBe(MAX_HOSTS);
  });
});
