/** @file The words by which each runtime starts a process in an image, compared with stated ones; and which runtime a host takes. */

import { describe, expect, it } from "vitest";
import type { ImageLaunch, RootEntry } from "../../../agent/images/image-launch.ts";
import { imageWords } from "../../../agent/images/image-words.ts";
import { pickTool } from "../../../agent/images/pick-tool.ts";
import { rootParts } from "../../../agent/images/root-parts.ts";
import type { ImageRule, ImageRuntime } from "../../../domain/job/job-image.ts";
import { ms } from "../../../domain/values/units.ts";

const RULE: ImageRule = {
  image: "registry.example.org/ml/train:2",
  runtime: "auto",
  mounts: [{ source: "/data/set", target: "/data", isReadOnly: true }],
  user: "host",
  pullTimeoutMs: ms(1_000),
};
const ROOT: Readonly<Record<string, readonly RootEntry[]>> = {
  "/": [
    { name: "usr", kind: "folder" },
    { name: "bin", kind: "link", to: "usr/bin" },
    { name: "var", kind: "folder" },
    { name: "tmp", kind: "folder" },
    { name: "proc", kind: "folder" },
  ],
  "/var": [
    { name: "lib", kind: "folder" },
    { name: "log", kind: "folder" },
  ],
  "/var/lib": [{ name: "dpkg", kind: "folder" }],
};

function launch(runtime: ImageRuntime, change: Partial<ImageLaunch> = {}): ImageLaunch {
  return {
    rule: RULE,
    tool: { runtime, path: `/usr/bin/${runtime}` },
    gpus: [
      { index: 1, uuid: "GPU-b", nodes: ["/dev/nvidia1"], devices: ["195:1"] },
      { index: 3, uuid: "GPU-d", nodes: ["/dev/nvidia0"], devices: ["195:0"] },
    ],
    variables: ["CUDA_VISIBLE_DEVICES", "RANK"],
    dropped: ["PATH", "HOME"],
    folders: [{ source: "/var/lib/ow/run", target: "/var/lib/ow/run", isReadOnly: false }],
    workdir: "/var/lib/ow/run",
    ids: { uid: 1000, gid: 100 },
    limits: { processes: 900, openFiles: 800 },
    native: "/opt/ow/supervisor",
    entriesOf: (path) => ROOT[path] ?? [],
    ...change,
  };
}

const asRoot = { rule: { ...RULE, user: "root" } } as const;
const COMMON = [
  ...[
    "run",
    "--rm",
    "--interactive",
    "--init",
    "--pull",
    "never",
    "--entrypoint",
    "",
    "--network",
    "host",
  ],
  ...["--ipc", "host", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"],
];
const MOUNTS = [
  ...["--mount", "type=bind,source=/data/set,target=/data,readonly"],
  ...["--mount", "type=bind,source=/var/lib/ow/run,target=/var/lib/ow/run"],
];
const REST = [
  ...["--env", "CUDA_VISIBLE_DEVICES", "--env", "RANK", "--env", "HOME=/var/lib/ow/run"],
  ...["--workdir", "/var/lib/ow/run", "registry.example.org/ml/train:2"],
];

describe("the words of", () => {
  it("podman", () => {
    expect(imageWords(launch("podman"))).toEqual([
      ...["/usr/bin/podman", ...COMMON, "--user", "1000:100", "--cgroups", "disabled"],
      ...["--ulimit", "nofile=800:800", "--ulimit", "nproc=900:900", "--http-proxy=false"],
      ...["--userns", "keep-id", "--device", "nvidia.com/gpu=GPU-b"],
      ...["--device", "nvidia.com/gpu=GPU-d", ...MOUNTS, ...REST.slice(0, -3)],
      ...["--mount", "type=bind,source=/opt/ow/supervisor,target=/.orbweaver-step,readonly"],
      ...[...REST.slice(-3), "/.orbweaver-step", "--take-signals", "--"],
    ]);
    const withoutStep = imageWords(launch("podman", { native: "" }));
    expect(withoutStep.at(-1)).toBe(RULE.image);
    const root = imageWords(launch("podman", asRoot));
    expect(root).toContain("0:0");
    expect(root).not.toContain("keep-id");
  });

  it("docker", () => {
    expect(imageWords(launch("docker"))).toEqual([
      ...["/usr/bin/docker", ...COMMON, "--user", "1000:100", "--log-driver", "none"],
      ...["--ulimit", "nofile=800:800"],
      ...["--gpus", '"device=GPU-b,GPU-d"', ...MOUNTS, ...REST],
    ]);
    expect(imageWords(launch("docker", { gpus: [] }))).not.toContain("--gpus");
  });

  it("apptainer", () => {
    expect(imageWords(launch("apptainer"))).toEqual([
      ...["/usr/bin/env", "-u", "PATH", "-u", "HOME", "/usr/bin/apptainer", "exec", "--contain"],
      ...["--no-home", "--no-privs", "--nv", "--bind", "/dev/shm:/dev/shm"],
      ...["--bind", "/data/set:/data:ro", "--bind", "/var/lib/ow/run:/var/lib/ow/run"],
      ...["--pwd", "/var/lib/ow/run", "docker://registry.example.org/ml/train:2"],
    ]);
    const rule = { ...RULE, user: "root", image: "/images/a.sif" } as const;
    const root = imageWords(launch("apptainer", { rule, gpus: [] }));
    expect(root).toContain("--fakeroot");
    expect(root).not.toContain("--nv");
    expect(root.at(-1)).toBe("/images/a.sif");
  });

  it("enroot", () => {
    const rule = { ...RULE, image: "/images/train.sqsh" };
    expect(imageWords(launch("enroot", { rule }))).toEqual([
      ...["/usr/bin/enroot", "start", "--mount", "/data/set:/data:none:x-create=auto,rbind,ro"],
      ...["--mount", "/var/lib/ow/run:/var/lib/ow/run:none:x-create=auto,rbind,rw"],
      ...["--env", "CUDA_VISIBLE_DEVICES", "--env", "RANK"],
      ...["--env", "NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-d", "--env", "HOME=/var/lib/ow/run"],
      ...["/images/train.sqsh", "sh", "-c", 'cd "$1" && shift && exec "$@"', "sh"],
      "/var/lib/ow/run",
    ]);
  });

  it("bubblewrap", () => {
    const rule = { ...RULE, image: "/images/train" };
    expect(imageWords(launch("bubblewrap", { rule }))).toEqual([
      ...["/opt/ow/supervisor", "--hold-signals", "--", "/usr/bin/bubblewrap"],
      ...["--die-with-parent", "--unshare-pid", "--cap-drop", "ALL"],
      ...["--symlink", "usr/bin", "/bin", "--ro-bind", "/images/train/usr", "/usr"],
      ...["--dir", "/var", "--dir", "/var/lib"],
      ...["--ro-bind", "/images/train/var/lib/dpkg", "/var/lib/dpkg"],
      ...["--ro-bind", "/images/train/var/log", "/var/log"],
      ...["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"],
      ...["--dev-bind-try", "/dev/shm", "/dev/shm"],
      ...["--dev-bind-try", "/dev/nvidiactl", "/dev/nvidiactl"],
      ...["--dev-bind-try", "/dev/nvidia-uvm", "/dev/nvidia-uvm"],
      ...["--dev-bind-try", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm-tools"],
      ...["--dev-bind-try", "/dev/nvidia1", "/dev/nvidia1"],
      ...["--dev-bind-try", "/dev/nvidia0", "/dev/nvidia0"],
      ...["--ro-bind", "/data/set", "/data", "--bind", "/var/lib/ow/run", "/var/lib/ow/run"],
      ...["--ro-bind", "/opt/ow/supervisor", "/.orbweaver-step", "--chdir", "/var/lib/ow/run"],
      ...["--unsetenv", "PATH", "--unsetenv", "HOME", "--setenv", "PATH"],
      "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
      ...["--setenv", "HOME", "/var/lib/ow/run"],
      ...["--", "/.orbweaver-step", "--take-signals", "--"],
    ]);
  });
});

it("mounts come after those that they lie in, and a run's own wins over a job's", () => {
  const mounts = ["/b/deep", "/var/lib/ow/run/", "/b"].map((path) => ({
    ...{ source: `/host${path}`, target: path },
    isReadOnly: false,
  }));
  const words = imageWords(launch("docker", { rule: { ...RULE, mounts } }));
  expect(words.filter((word) => word.startsWith("type=bind"))).toEqual([
    "type=bind,source=/host/b,target=/b",
    "type=bind,source=/host/b/deep,target=/b/deep",
    "type=bind,source=/var/lib/ow/run,target=/var/lib/ow/run",
  ]);
});

it("a part of a root in which the mount has its place is mounted whole", () => {
  const parts = rootParts(["/var/lib"], (path) => ROOT[path] ?? []);
  expect(parts).toContainEqual({ kind: "mounted", path: "/var" });
});

describe("a host takes", () => {
  const tools = (...runtimes: readonly ImageRuntime[]) =>
    runtimes.map((runtime) => ({ runtime, path: `/usr/bin/${runtime}` }));
  const user = { uid: 1000, isOther: false };

  it.each([
    [RULE.image, ["bubblewrap", "apptainer", "docker"], "docker"],
    [RULE.image, ["docker", "podman"], "podman"],
    ["/images/root", ["apptainer", "podman", "bubblewrap"], "bubblewrap"],
    ["/images/a.sif", ["podman", "apptainer"], "apptainer"],
    ["/images/a.sqsh", ["podman", "enroot"], "enroot"],
  ] as const)("for %s of %j: %s", (image, had, want) => {
    const picked = pickTool({ ...RULE, image }, tools(...had), user);
    expect(picked).toMatchObject({ tool: { runtime: want } });
  });

  it.each([
    ["no runtime at all", RULE, [], user, /needs podman, docker, apptainer there.*no runtime/],
    ["another one than is named", { ...RULE, runtime: "podman" }, ["docker"], user, /needs podman/],
    ["root in docker", { ...RULE, user: "root" }, ["docker"], user, /root of the host/],
    ["a daemon for another user", RULE, ["docker"], { uid: 7, isOther: true }, /those of root/],
  ] as const)("nothing for %s", (_case, rule, had, as, why) => {
    const picked = pickTool(rule, tools(...had), as);
    expect("refusal" in picked && picked.refusal).toMatch(why);
  });
});
