/** @file Which files of a folder `--sync` sends. */

import { execFileSync } from "node:child_process";
import { chmodSync, mkdirSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ignoreRules } from "../../../cli/command/ignore-rules.ts";
import { readFolder } from "../../../cli/command/sent-folder.ts";

describe(".orbweaverignore", () => {
  it.each([
    { text: "", path: "a.py", want: false },
    { text: "", path: ".git", isFolder: true, want: true },
    { text: "!.git", path: ".git", isFolder: true, want: false },
    { text: "*.log", path: "runs/a.log", want: true },
    { text: "*.log\n!keep.log", path: "runs/keep.log", want: false },
    { text: "/data", path: "data", want: true },
    { text: "/data", path: "src/data", want: false },
    { text: "data/", path: "src/data", isFolder: true, want: true },
    { text: "data/", path: "src/data", want: false },
    { text: "src/*.py", path: "src/a.py", want: true },
    { text: "src/*.py", path: "src/in/a.py", want: false },
    { text: "src/**/x", path: "src/a/b/x", want: true },
    { text: "src/**/x", path: "src/x", want: true },
    { text: "src/**", path: "src/a/b", want: true },
    { text: "a?c", path: "abc", want: true },
    { text: "a[b-c]d", path: "acd", want: true },
    { text: "a[!b]d", path: "abd", want: false },
    { text: "# a\n\n", path: "# a", want: false },
    { text: "a.b", path: "axb", want: false },
    { text: "\\#a", path: "#a", want: true },
  ])("$text and $path", ({ text, path, isFolder = false, want }) => {
    expect(ignoreRules(text)({ path, isFolder })).toBe(want);
  });
});

describe("a sent folder", () => {
  const made = (): string => {
    const folder = mkdtempSync(join(tmpdir(), "orbweaver-sent-"));
    mkdirSync(join(folder, "src"));
    mkdirSync(join(folder, "data"));
    writeFileSync(join(folder, "run.sh"), "run");
    chmodSync(join(folder, "run.sh"), 0o755);
    writeFileSync(join(folder, "src", "a.py"), "a");
    writeFileSync(join(folder, "data", "big"), "big");
    symlinkSync("src/a.py", join(folder, "link"));
    writeFileSync(join(folder, ".orbweaverignore"), "data/\n");
    return folder;
  };

  it("has its files, links and folders, without what is ignored", async () => {
    const entries = await readFolder(made());
    const sorted = [...entries].sort((one, other) => (one.path < other.path ? -1 : 1));
    expect(sorted.map(({ path }) => path)).toEqual([
      ".orbweaverignore",
      "link",
      "run.sh",
      "src",
      "src/a.py",
    ]);
    expect(sorted[1]).toEqual({ path: "link", target: "src/a.py" });
    expect(sorted[2]).toMatchObject({ isExecutable: true });
  });

  it("is refused with a link that leads out of it, and when it is not there", async () => {
    const folder = made();
    symlinkSync("/etc", join(folder, "out"));
    await expect(readFolder(folder)).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("leads out of the folder"),
    });
    await expect(readFolder(join(folder, "none"))).rejects.toMatchObject({ code: "BAD_INPUT" });
  });

  it("leaves pipes out, and has odd names as they are", async () => {
    const folder = made();
    execFileSync("mkfifo", [join(folder, "pipe")]);
    for (const name of ["-dash", "a\nb", "sp ace", "\u00e9", "\uFFFD"])
      writeFileSync(join(folder, name), name);
    const paths = (await readFolder(folder)).map(({ path }) => path);
    expect(paths).toEqual(expect.arrayContaining(["-dash", "a\nb", "sp ace", "\u00e9", "\uFFFD"]));
    expect(paths).not.toContain("pipe");
  });

  it("is refused with a name that is no UTF-8, which would name nothing on a host", async () => {
    const folder = made();
    writeFileSync(Buffer.concat([Buffer.from(join(folder, "bad-")), Buffer.from([0xff])]), "");
    await expect(readFolder(folder)).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("is no UTF-8"),
    });
  });

  it.skipIf(process.getuid?.() === 0)("is refused with a file that nobody may read", async () => {
    const folder = made();
    chmodSync(join(folder, "run.sh"), 0);
    await expect(readFolder(folder)).rejects.toMatchObject({
      code: "BAD_INPUT",
      message: expect.stringContaining("Make it readable"),
    });
  });
});
