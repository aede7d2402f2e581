/** @file The file of a service: the job of one replica and the rule for their number; jobs themselves have no such keys. */

import { describe, expect, it, test } from "vitest";
import { parseJobYaml } from "../../../domain/job/job-file.ts";
import { parseServiceYaml } from "../../../domain/job/service-file.ts";

const chat = (serve: string): string =>
  `name: chat
class: inference
gang: 1
model: llama-3-8b
serve: { engine: vllm, ttft: 500ms, tpot: 40ms, ${serve} }
run: { command: vllm serve /m --port $MASTER_PORT $ORBWEAVER_ENGINE_ARGS }
`;
const AT = { file: "chat.yaml" };

describe("a service's file", () => {
  it("is a job file with a rule, and the job has none of its keys", () => {
    const read = parseServiceYaml(chat("max: 3, scaleToZero: 30s"), AT);
    if (read.kind === "refused") throw new Error(JSON.stringify(read.problems));
    expect(read.rule).toEqual({ min: 0, max: 3, idleMs: 30_000 });
    expect(read.job.serve).toEqual({ engine: "vllm", ttft: "500ms", tpot: "40ms" });
    expect(read.spec.engine).toMatchObject({ ttftMs: 500 });
  });

  it("of an .onnx model takes the folder that it is given", () => {
    const text = "name: p\nclass: inference\ngang: 1\nmodel: m.onnx\nserve: { min: 2 }\n";
    const read = parseServiceYaml(text, { ...AT, workdir: "/models" });
    if (read.kind === "refused") throw new Error(JSON.stringify(read.problems));
    expect(read.rule).toEqual({ min: 2, max: 2 });
    expect(read.job.serve).toBeUndefined();
    expect(read.spec.run.workdir).toBe("/models");
  });

  test.each([
    { what: "more at least than at most", serve: "min: 4, max: 2", path: "serve.min" },
    { what: "none, for ever", serve: "min: 0", path: "serve.min" },
    {
      what: "idle replicas that stay",
      serve: "min: 1, scaleToZero: 30s",
      path: "serve.scaleToZero",
    },
    { what: "a number that is none", serve: "max: many", path: "serve.max" },
  ])("with $what is refused at its place", ({ serve, path }) => {
    const read = parseServiceYaml(chat(serve), AT);
    expect(read).toMatchObject({ kind: "refused", problems: [{ path, line: 5 }] });
  });

  it("that serves nothing is refused", () => {
    const text = "name: t\ngang: 1\nrun: { command: sleep 1 }\n";
    expect(parseServiceYaml(text, AT)).toMatchObject({
      kind: "refused",
      problems: [{ path: "serve", message: "the job serves nothing" }],
    });
  });
});

test("a job with a service's keys is refused, and told what keeps replicas", () => {
  expect(parseJobYaml(chat("max: 3"), AT)).toMatchObject({
    kind: "refused",
    problems: [{ path: "serve.max", remedy: expect.stringMatching(/orbweaver serve replicas/) }],
  });
});
