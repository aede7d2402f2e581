/** @file `run.container` of a job file: what it means, and each problem with its place and remedy. */

import { describe, expect, it } from "vitest";
import { imageFault } from "../../../domain/job/image-schema.ts";
import type { ImageRule } from "../../../domain/job/job-image.ts";
import { ms } from "../../../domain/values/units.ts";
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

describe("of an order that no reader of files has checked", () => {
  const RULE: ImageRule = {
    ...{ image: "/images/a", runtime: "auto", mounts: [], user: "host", workdir: "/work" },
    pullTimeoutMs: ms(600_000),
  };
  const fault = (change: object, run: object = {}) =>
    imageFault({ container: { ...RULE, ...change }, ...run });
  const mount = (source: string, target = "/x") => ({
    mounts: [{ source, target, isReadOnly: false }],
  });

  it("what a file can state is none", () => {
    expect(fault({})).toBeUndefined();
    expect(fault(mount("/data", "/data/a"), { workdir: "/home/ada" })).toBeUndefined();
    expect(imageFault({ workdir: "/a,b" })).toBeUndefined();
  });

  it.each([
    ["a mount with a field more", mount("/data/x,source=/"), /mounts\.0/],
    ["a target with a field more", mount("/data", "/x,readonly=false"), /mounts\.0/],
    ["a mount with a colon", mount("/data:/etc"), /mounts\.0/],
    ["a way out", mount("/data/../etc"), /mounts\.0/],
    ["the root as target", mount("/data", "//."), /\/ of the container is its own/],
    ["the kernel's as target", mount("/data", "//proc/x"), /\/proc of the container is its own/],
    ["a flag as image", { image: "--privileged" }, /container\.image/],
    ["another user", { user: "0:0" }, /container\.user/],
    ["a flag as folder", { workdir: "--privileged" }, /container\.workdir/],
    ["a runtime of theirs", { runtime: "runc" }, /container\.runtime/],
  ])("%s", (_case, change, want) => {
    expect(fault(change)).toMatch(want);
  });

  it.each(["/", "/proc/1", "/dev", "/./sys", "/data/x,source=/", "/a:b", "/data/../etc"])(
    "%s as the job's own folder",
    (path) => {
      expect(fault({}, { workdir: path })).toMatch(/^run\.workdir: /);
      const checkpoint = { dir: path, order: { kind: "signal", signal: "USR1" }, graceMs: 1 };
      expect(fault({}, { checkpoint })).toMatch(/^run\.checkpoint\.dir: /);
      const run = { command: ["true"], container: { image: "/images/a" }, workdir: path };
      const found = parseJobFile({ name: "a", gang: 1, run });
      expect(wordsOf(found)).toMatch(/run\.workdir.*(cannot be mounted|is its own)/);
    },
  );
});
