/** @file Every code is documented and used, and no other code is: one registry, read three ways. */

import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, expect, it } from "vitest";
import { FAILURE_CODES, PENDING_CODES, REFUSAL_CODES } from "../../../domain/values/codes.ts";

const ROOT = path.resolve(import.meta.dirname, "../../..");
const ROOMS = [
  "domain",
  "lib",
  "scheduling",
  "planning",
  "tuning",
  "models",
  "protocol",
  "machines",
  "agent",
  "workflows",
  "activities",
  "workers",
  "client",
  "cli",
];
const CODES = [...PENDING_CODES, ...REFUSAL_CODES, ...FAILURE_CODES];

const sources = ROOMS.flatMap((room) =>
  readdirSync(path.join(ROOT, room), { recursive: true, encoding: "utf8" }).map((file) =>
    path.join(ROOT, room, file),
  ),
)
  .filter((file) => file.endsWith(".ts") && !file.endsWith("domain/values/codes.ts"))
  .map((file) => readFileSync(file, "utf8"))
  .join("\n");
const documented = [
  ...readFileSync(path.join(ROOT, "docs/errors.md"), "utf8").matchAll(/^\| `(\w+)` \|/gm),
].map((match) => match[1]);

describe("codes", () => {
  it.each(CODES)("%s is raised somewhere", (code) => {
    expect(sources).toMatch(new RegExp(`["'\`]${code}["'\`]|\\b${code}:`));
  });

  it("are all documented in docs/errors.md, and nothing else is", () => {
    expect([...documented].sort()).toEqual([...CODES].sort());
  });

  it("are distinct", () => {
    expect(new Set(CODES).size).toBe(CODES.length);
  });
});
