/** @file Jobs that are too large are refused with the figure, the field that has most of it, and what to do instead. */

import { describe, expect, it } from "vitest";
import { MAX_REQUEST_BYTES } from "../../../domain/lease/gang-request.ts";
import { parseJobFile, type JobFile } from "../../../domain/job/job-file.ts";
import { MAX_JOB_FILE_BYTES, requestBytes, tooLarge } from "../../../domain/lease/job-size.ts";

const fits = (file: JobFile) => {
  const read = parseJobFile(file);
  if (read.kind === "refused") throw new Error(JSON.stringify(read.problems));
  return { excess: tooLarge(file, read.spec), spec: read.spec };
};
const job = (run: Partial<JobFile["run"]> = {}, rest: Partial<JobFile> = {}): JobFile => ({
  name: "big",
  gang: { gpus: 1 },
  ...rest,
  run: { command: ["train"], ...run },
});
const clusters = (count: number) => Array.from({ length: count }, (_, at) => `cluster-${at}`);

describe("a job", () => {
  it.each<[string, JobFile, string | undefined]>([
    ["of a usual size fits", job(), undefined],
    [
      "with a script in its environment",
      job({ env: { A: "1", SCRIPT: "x".repeat(66_000) } }),
      "run.env.SCRIPT",
    ],
    [
      "with many variables",
      job({
        env: Object.fromEntries(
          Array.from({ length: 3_000 }, (_, at) => [`NAME_${at}`, "a long value"]),
        ),
      }),
      "run.env",
    ],
    ["with a long command line", job({ command: ["sh", "-c", "y".repeat(70_000)] }), "run.command"],
    [
      "with more clusters than a request holds",
      job({}, { constraints: { clusters: clusters(900) } }),
      "constraints.clusters",
    ],
  ])("%s", (_name, file, wantField) => {
    const { excess } = fits(file);
    expect(excess?.field).toBe(wantField);
    if (wantField !== undefined) {
      expect(excess?.message).toContain(`${String(excess?.bytes)} bytes`);
      expect(excess?.message).toContain(wantField);
    }
  });

  it("of exactly the limit fits, one byte more does not", () => {
    const without = JSON.stringify(job({ env: { A: "" } })).length;
    const sized = (bytes: number) => job({ env: { A: "z".repeat(bytes - without) } });
    expect(fits(sized(MAX_JOB_FILE_BYTES)).excess).toBeUndefined();
    expect(fits(sized(MAX_JOB_FILE_BYTES + 1)).excess).toMatchObject({
      bytes: MAX_JOB_FILE_BYTES + 1,
      maxBytes: MAX_JOB_FILE_BYTES,
    });
  });

  it("whose request is too large is told so, however small its file is otherwise", () => {
    const { excess, spec } = fits(job({}, { constraints: { clusters: clusters(900) } }));
    expect(excess).toMatchObject({ bytes: requestBytes(spec), maxBytes: MAX_REQUEST_BYTES });
  });
});
