import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOM = join(import.meta.dirname, "../../agent");
/** The real ports, probes of real links, and sessions, which copy bytes of real processes and sockets. */
const OUTSIDE = ["system/", "link-probe/", "sessions/"];
/** Paths, digests and URLs are values; everything else of Node and the SDK goes through a port. */
const PURE = ["node:path", "node:crypto", "node:url"];
const EFFECT =
  /\b(?:Date\.now|performance\.now|setTimeout|setInterval|AbortSignal\.timeout|Math\.random|randomBytes|process\.(?:kill|on|pid|env))\b/;

it("the agent's logic reaches files, processes, clocks and Temporal through its ports alone", () => {
  const logic = readdirSync(ROOM, { recursive: true, encoding: "utf8" }).filter(
    (file) => file.endsWith(".ts") && !OUTSIDE.some((folder) => file.startsWith(folder)),
  );
  expect(logic.length).toBeGreaterThan(40);
  const found = logic.flatMap((file) => {
    const text = readFileSync(join(ROOM, file), "utf8");
    const loads = [...text.matchAll(/from "((?:node:|@)[^"]+)"/g)].map(([, name = ""]) => name);
    return [
      ...loads.filter((name) => !PURE.includes(name)).map((name) => `${file} loads ${name}`),
      ...text.split("\n").flatMap((line) => (EFFECT.test(line) ? [`${file}: ${line.trim()}`] : [])),
    ];
  });
  expect(found).toEqual([]);
});
