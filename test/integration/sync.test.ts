/** @file `--sync` on a fleet that `up` has started: jobs run in a copy of the folder of their submission, as it was then. */

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openScratch, type Scratch } from "../docs/pages.ts";

const LONG_MS = 700_000;

let scratch: Scratch;
beforeAll(() => {
  scratch = openScratch();
  scratch.run("orbweaver up");
  scratch.run(`mkdir -p work/lib work/data && cd work && printf 'echo task $ARRAY_INDEX of "$(cat lib/words)" > out$ARRAY_INDEX; cat out$ARRAY_INDEX\\n' > lib/task
    printf '#!/bin/sh\\n. ./link\\n' > task.sh && chmod +x task.sh && ln -s lib/task link
    echo words > lib/words && echo secret > data/large && echo data/ > .orbweaverignore`);
}, LONG_MS);
afterAll(() => {
  scratch.run("orbweaver down --stop-jobs --purge");
  scratch.remove();
}, LONG_MS);

const ended = (command: string): string =>
  scratch.run(`cd work && ${command} && echo "= 0" || echo "= $?"`);

describe("a job with --sync", () => {
  it("runs in a copy of the folder, without what is ignored, and writes nothing into the folder itself", () => {
    expect(ended("orbweaver run --sync --gpus 1 -- ./task.sh")).toBe("task of words\n= 0\n");
    expect(ended("orbweaver run --sync --gpus 1 -- sh -c 'pwd; ls -A data'")).toMatch(
      /^(?!.*\/work\n)[^\n]*\/folder\n[^]*= [12]\n$/,
    );
    expect(scratch.run("ls work")).not.toContain("out");
  });

  it("runs what was there when it was submitted", () => {
    scratch.run("cd work && orbweaver submit --sync --hold --gpus 1 --key before -- ./task.sh");
    scratch.run("cd work && echo others > lib/words && orbweaver release before");
    scratch.run("echo words > work/lib/words");
    expect(ended("orbweaver attach before")).toBe("task of words\n= 0\n");
    scratch.run("orbweaver retry before --key again");
    expect(ended("orbweaver attach again")).toBe("task of words\n= 0\n");
  });

  it("may be a file's, an array's, or one of another folder", () => {
    scratch.run("printf 'name: filed\\ngang: 1\\nrun: { command: ./task.sh }\\n' > filed.yaml");
    expect(ended("orbweaver submit --sync --wait --gpus 1 ../filed.yaml")).toBe(
      "task of words\n= 0\n",
    );
    expect(
      scratch.run("orbweaver run --sync --workdir work --gpus 2 --launch per-host -- ./task.sh"),
    ).toBe("task of words\n");
    ended("orbweaver submit --sync --key sweep --wait --gpus 1 --array 20 -- ./task.sh");
    expect(scratch.run("orbweaver logs sweep --task 7")).toBe("task 7 of words\n");
  });

  it("is refused where its file names another folder, and for a link that leads out", () => {
    scratch.run(
      "printf 'name: f\\ngang: 1\\nrun: { command: ./task.sh, workdir: /tmp }\\n' > placed.yaml",
    );
    expect(ended("orbweaver submit --sync ../placed.yaml")).toBe("= 2\n");
    scratch.run("ln -s /etc work/out-of-it");
    expect(ended("orbweaver submit --sync --gpus 1 -- ./task.sh")).toBe("= 2\n");
    scratch.run("rm work/out-of-it");
  });

  it("ends with FOLDER_UNAVAILABLE where no place has the folder", () => {
    const rule = `{ hash: "${"0".repeat(64)}", from: ["unix:/nowhere"] }`;
    scratch.run(
      `printf 'name: lost\\ngang: 1\\nrun: { command: "true", folder: ${rule} }\\n' > lost.yaml`,
    );
    expect(ended("orbweaver submit --key lost --wait ../lost.yaml 2> ../why")).toBe("= 1\n");
    expect(scratch.run("orbweaver status lost --json")).toContain("FOLDER_UNAVAILABLE");
  });
});

describe("the array of the README", () => {
  it(
    "runs its thousand tasks in the folder of its submission",
    () => {
      const words = "orbweaver submit --gpus 1 --array 1000 --key thousand --wait -- ./task.sh";
      expect(ended(words.replace(" --array 1000", " --array 1000 --parallel 8"))).toContain(
        "= 0\n",
      );
      expect(scratch.run("orbweaver logs thousand --task 999")).toBe("task 999 of words\n");
    },
    LONG_MS,
  );
});
