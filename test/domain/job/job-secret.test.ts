import { describe, expect, it } from "vitest";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import { parseSecret, SECRET_PATTERN } from "../../../domain/job/job-secret.ts";
import { contentOfSpec } from "../../../protocol/signed-job.ts";
import { contentHash } from "../../../access/job-proof.ts";

const jobWith = (env: string): ReturnType<typeof parseJobYaml> =>
  parseJobYaml(`name: toy\ngang: 1\nrun:\n  command: ["true"]\n  env: ${env}\n`, {
    file: "job.yaml",
  });
const specWith = (env: string) => {
  const parsed = jobWith(env);
  if (parsed.kind !== "parsed") throw new Error(JSON.stringify(parsed));
  return parsed.spec;
};

describe("a reference to a secret", () => {
  it.each([
    ["file:/srv/token", { kind: "file", path: "/srv/token" }],
    ["file:~/.config/a b", { kind: "file", path: "~/.config/a b" }],
    ["env:HF_TOKEN", { kind: "env", name: "HF_TOKEN" }],
    ["command:vault read x | head -1", { kind: "command", line: "vault read x | head -1" }],
  ])("%s is read", (text, value) => {
    expect(parseSecret(text)).toEqual({ kind: "read", value });
    expect(text).toMatch(new RegExp(SECRET_PATTERN));
  });

  it.each([
    ["token", "no reference"],
    ["file:token", "whole path"],
    ["file:~root/token", "whole path"],
    ["file:/srv/", "whole path"],
    ["file:/srv/../etc/shadow", "whole path"],
    ["env:A-B", "no variable"],
    ["env:ORBWEAVER_API_TOKEN", "setting of the agent"],
    ["env:TEMPORAL_API_KEY", "setting of the agent"],
    ["command: ", "no command"],
    ["command:a\0b", "NUL"],
    [7, "not text"],
  ])("%j is refused", (text, message) => {
    const reading = parseSecret(text);
    expect(reading).toMatchObject({ kind: "refused" });
    expect(reading.kind === "refused" && reading.message).toContain(message);
  });
});

describe("the environment of a job file", () => {
  it("divides into texts and references, and what signs the job covers both", () => {
    const plain = specWith('{ A: "1" }');
    const one = specWith('{ A: "1", B: { secret: "file:/b" } }');
    const other = specWith('{ A: "1", B: { secret: "file:/c" } }');
    expect(plain.run).toMatchObject({ env: { A: "1" } });
    expect(plain.run.secrets).toBeUndefined();
    expect(one.run).toMatchObject({ env: { A: "1" }, secrets: { B: "file:/b" } });
    const hashes = [plain, one, other].map((spec) => contentHash(contentOfSpec(spec)));
    expect(new Set(hashes).size).toBe(3);
  });

  it.each([
    ["{ B: { secret: file:b } }", "run.env.B"],
    ["{ NNODES: { secret: file:/b } }", "hosts set it themselves"],
    ["{ B: { secrets: file:/b } }", "neither text nor a secret"],
    ["{ B: { secret: file:/b, more: 1 } }", "neither text nor a secret"],
    ["{ RANK: { secret: file:/b } }", "set by Orbweaver"],
    [
      `{ ${Array.from({ length: 33 }, (_, at) => `V${String(at)}: { secret: file:/b }`).join(", ")} }`,
      "33 secrets",
    ],
  ])("%.40s is refused", (env, want) => {
    const parsed = jobWith(env);
    expect(parsed.kind).toBe("refused");
    expect(JSON.stringify(parsed)).toContain(want);
  });
});
