/**
 * @file Bubblewrap, with the unpacked root of an image: read-only, with devices, processes and `/tmp` of its own.
 *
 * The root is a file system in memory into which the image's folders are mounted one by one, so that mounts find a place where the image has none. Of
 * bubblewrap's own two processes the first would end of a signal at once and take the others with it. So the native supervisor's steps hold
 * signals back before it, and let them through behind it (`agent/native/exec-step.c`).
 */

import { STEP, type ImageLaunch } from "./image-launch.ts";
import { mountsOf } from "./mounts.ts";
import { rootParts, type RootPart } from "./root-parts.ts";

/** Of an image that says nothing, as a folder does. */
const PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/** A driver has more nodes than its GPUs'. */
const DRIVER_NODES = ["/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"];

export function bubblewrapWords(launch: ImageLaunch): readonly string[] {
  const { rule, tool, gpus, dropped, workdir, native, entriesOf } = launch;
  const mounts = mountsOf(launch);
  const own = new Set(gpus.flatMap(({ nodes: each }) => each));
  const nodes = own.size === 0 ? [] : [...DRIVER_NODES, ...own];
  return [
    ...[native, "--hold-signals", "--"],
    ...[tool.path, "--die-with-parent", "--unshare-pid", "--cap-drop", "ALL"],
    ...(rule.user === "root" ? ["--unshare-user", "--uid", "0", "--gid", "0"] : []),
    ...rootParts(
      mounts.map(({ target }) => target),
      entriesOf,
    ).flatMap((part) => partWords(rule.image, part)),
    ...["--proc", "/proc", "--dev", "/dev", "--ro-bind", "/sys", "/sys", "--tmpfs", "/tmp"],
    ...["/dev/shm", ...nodes].flatMap((node) => ["--dev-bind-try", node, node]),
    ...mounts.flatMap(({ source, target, isReadOnly }) => [
      isReadOnly ? "--ro-bind" : "--bind",
      source,
      target,
    ]),
    ...["--ro-bind", native, STEP, "--chdir", workdir],
    ...dropped.flatMap((name) => ["--unsetenv", name]),
    ...(dropped.includes("PATH") ? ["--setenv", "PATH", PATH] : []),
    ...(dropped.includes("HOME") ? ["--setenv", "HOME", workdir] : []),
    ...["--", STEP, "--take-signals", "--"],
  ];
}

function partWords(image: string, { kind, path, ...part }: RootPart): readonly string[] {
  if (kind === "made") return ["--dir", path];
  if ("to" in part) return ["--symlink", part.to, path];
  return ["--ro-bind", `${image}${path}`, path];
}
