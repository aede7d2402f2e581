/** @file `run.container` of a job file: what it means, and each problem with its place and remedy. */

import { describe, expect, it } from "vitest";
import { formatProblem, parseJobFile } from "../../../domain/job/job-file.ts";

const parsed = (container: unknown, more: object = {}) =>
  parseJobFile({ name: "in-image", gang: 1, run: { command: ["true"], container }, ...more });

const wordsOf = (found: ReturnType<typeof parseJobFile>): string =>
  found.kind === "refused" ? found.problems.map(formatProblem).join("\n") : "";

it("defaults are filled in, and mounts are read", () => {
  const mounts = ["/data", "/a:/b", "/c:ro", "/d:/e/f:rw"];
  const found = parsed({ image: "nvcr.io/nvidia/pytorch:25.01-py3", mounts });
  expect(found).toMatchObject({
    kind: "parsed",
    spec: {
      run: {
        container: {
          image: "nvcr.io/nvidia/pytorch:25.01-py3",
          runtime: "auto",
          mounts: [
            { source: "/data", target: "/data", isReadOnly: false },
            { source: "/a", target: "/b", isReadOnly: false },
            { source: "/c", target: "/c", isReadOnly: true },
            { source: "/d", target: "/e/f", isReadOnly: false },
          ],
          user: "host",
          pullTimeoutMs: 600_000,
        },
      },
    },
  });
});

describe("refused, with its place:", () => {
  it.each([
    ["a flag as image", { image: "--privileged" }, /run\.container\.image.*is no image/],
    ["a root of the host", { image: "/" }, /is no image/],
    ["a way out of a folder", { image: "/images/../etc" }, /is no image/],
    ["a relative mount", { image: "/i", mounts: ["data:/data"] }, /mounts\[0\].*is no mount/],
    ["dots in a mount", { image: "/i", mounts: ["/data/../etc:/x"] }, /is no mount/],
    ["a comma in a mount", { image: "/i", mounts: ["/data,readonly:/x"] }, /is no mount/],
    ["a mount over /dev", { image: "/i", mounts: ["/data:/dev/shm"] }, /\/dev of the container/],
    ["a mount over all", { image: "/i", mounts: ["/data:/"] }, /is its own/],
    ["a runtime that cannot", { image: "/i", runtime: "docker" }, /docker does not start a folder/],
    ["podman for a file", { image: "/i.sif", runtime: "podman" }, /podman does not start a sif/],
    ["a missing image", { runtime: "podman" }, /image.*missing/],
  ])("%s", (_case, container, want) => {
    const found = parsed(container);
    expect(wordsOf(found)).toMatch(want);
  });

  it("an image of a served model", () => {
    const found = parseJobFile({
      ...{ name: "served", gang: 1, class: "inference", model: "/m.onnx" },
      run: { container: { image: "/i" } },
    });
    expect(wordsOf(found)).toMatch(/agent's own program/);
  });
});
