/** @file Commands in README.md and docs/ that are marked runnable and need no fleet do run. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { blocksThatNeed, openScratch, runnableBlocks, type Scratch } from "./pages.ts";

const titled = (needs: "build" | "fleet") =>
  blocksThatNeed(needs).map((block) => ({ ...block, place: `${block.file}:${block.line}` }));

describe("runnable blocks", () => {
  let scratch: Scratch;
  beforeAll(() => {
    scratch = openScratch();
  });
  afterAll(() => {
    scratch.remove();
  });

  it.each(titled("build"))("$place runs", ({ commands }) => {
    scratch.run(commands);
  });
});

describe("marks", () => {
  it("the first steps of the README are runnable", () => {
    const [steps] = blocksThatNeed("fleet").filter(({ file }) => file === "README.md");
    const verbs = [...(steps?.commands ?? "").matchAll(/^orbweaver (\w+)/gm)].map(([, v]) => v);
    expect(verbs).toEqual(
      expect.arrayContaining(["up", "submit", "list", "logs", "explain", "down"]),
    );
  });

  it("a block is found with its file, line and commands", () => {
    const lines = ["text", "```sh", "no", "```", "```sh runnable", "echo 1", "echo 2", "```"];
    expect(runnableBlocks({ file: "a.md", lines })).toEqual([
      { file: "a.md", line: 5, needs: "build", commands: "echo 1\necho 2" },
    ]);
  });

  it("a mark that is spelled wrong is an error", () => {
    const lines = ["```sh runnable flet", "echo", "```"];
    expect(() => runnableBlocks({ file: "a.md", lines })).toThrow(/a\.md:1 says/);
  });

  it("commands that fail are an error", () => {
    const scratch = openScratch();
    expect(() => scratch.run("false\ntrue")).toThrow(/status 1/);
    scratch.remove();
  });
});
