import { spawnSync } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startServer } from "../../../workers/server/index.ts";
import type { StartOptions } from "../../../workers/server/index.ts";
import { drawFreePort } from "../../../workers/server/ports.ts";
import { linesOf, newWorld, writeScript } from "./fakes.ts";

/** Options with a fake program of these lines, and the file that it may write to. */
function fakeServer(lines: (noteFile: string) => readonly string[]): {
  readonly options: StartOptions;
  readonly noteFile: string;
} {
  const { folder } = newWorld();
  const binary = join(folder, "temporal");
  const noteFile = join(folder, "notes");
  writeScript(binary, lines(noteFile));
  const logFile = join(folder, "logs", "server.log");
  return { options: { binary, logFile, searchAttributes: [] }, noteFile };
}

test("the server is told its files, ports, attributes and speed, and nothing of the user's settings", async () => {
  const { options, noteFile } = fakeServer((notes) => [
    `for a in "$@"; do echo "$a" >> '${notes}'; done`,
    `echo "address=$TEMPORAL_ADDRESS" >> '${notes}'`,
    "exit 1",
  ]);
  const port = await drawFreePort();
  const uiPort = await drawFreePort(new Set([port]));
  const start = startServer({
    ...options,
    dbFile: join(noteFile, "..", "state", "x.db"),
    port,
    uiPort,
    namespace: "lab",
    searchAttributes: [{ name: "Gpus", type: "Int" }],
    extraDynamicConfig: { "history.rps": 7, "worker.x": "y" },
    env: { ...process.env, TEMPORAL_ADDRESS: "prod:7233" },
  });
  await expect(start).rejects.toMatchObject({ type: "TEMPORAL_SERVER_UNAVAILABLE" });
  const notes = linesOf(noteFile);
  const following = (flag: string): readonly string[] =>
    notes.filter((_line, index) => notes[index - 1] === flag);
  expect(following("--port")).toEqual([String(port)]);
  expect(following("--ui-port")).toEqual([String(uiPort)]);
  expect(following("--ip")).toEqual(["127.0.0.1"]);
  expect(following("--namespace")).toEqual(["lab"]);
  expect(following("--search-attribute")).toEqual(["Gpus=Int"]);
  expect(following("--db-filename")).toEqual([join(noteFile, "..", "state", "x.db")]);
  expect(following("--dynamic-config-value")).toEqual(
    expect.arrayContaining(["matching.useNewMatcher=true", "history.rps=7", 'worker.x="y"']),
  );
  expect(notes).toContain("address=");
});

test("a server that ends at once is reported with the last lines of its log", async () => {
  const { options } = fakeServer(() => ["echo 'schema is from the future' >&2", "exit 3"]);
  await expect(startServer(options)).rejects.toThrow(
    /ended before it answered \(exit code 3\)[^]*schema is from the future/,
  );
});

test("a server that never answers is given up and ended", async () => {
  const { options, noteFile } = fakeServer((notes) => [`echo $$ > '${notes}'`, "exec sleep 600"]);
  await expect(startServer({ ...options, readyWithinMs: 5_000 })).rejects.toThrow(
    "did not answer within 5 s",
  );
  const pid = linesOf(noteFile)[0] ?? "";
  expect(spawnSync("kill", ["-0", pid]).status).not.toBe(0);
});

test("a program that cannot be run is named", async () => {
  const { options } = fakeServer(() => []);
  const start = startServer({ ...options, binary: "/nowhere/temporal" });
  await expect(start).rejects.toThrow(/\/nowhere\/temporal cannot be run: .*ENOENT/);
});

const RACES = [
  { name: "drawn ports are drawn again", isGiven: false, wantStarts: 4 },
  { name: "given ports are not", isGiven: true, wantStarts: 1 },
];

test.each(RACES)(
  "when another process takes the port first, $name",
  async ({ isGiven, wantStarts }) => {
    const given = isGiven ? { port: await drawFreePort(), headless: true } : {};
    const { options, noteFile } = fakeServer((notes) => [
      `echo start >> '${notes}'`,
      "echo 'listen tcp: bind: address already in use' >&2",
      "exit 1",
    ]);
    await expect(startServer({ ...options, ...given })).rejects.toThrow("address already in use");
    expect(linesOf(noteFile)).toHaveLength(wantStarts);
  },
);

test("a given port on which something listens is refused before anything starts", async () => {
  const { options } = fakeServer(() => ["exit 1"]);
  const blocker = createServer();
  await new Promise<void>((resolve) => blocker.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    blocker.close();
  });
  const address = blocker.address();
  const port = typeof address === "object" ? (address?.port ?? 0) : 0;
  await expect(startServer({ ...options, port, portWithinMs: 100 })).rejects.toThrow(
    `port ${String(port)}`,
  );
});
