/**
 * @file Which parts of an image's root are mounted as they are, and which folders are made anew, so that each mount of a job has a place.
 *
 * A part is mounted whole unless a mount lies in it at a place that the image does not have. Cost: one listing for each folder on the way to a mount.
 */

import type { RootEntry } from "./image-launch.ts";

export type RootPart =
  | { readonly kind: "mounted"; readonly path: string }
  /** An empty folder. */
  | { readonly kind: "made"; readonly path: string }
  | { readonly kind: "link"; readonly path: string; readonly to: string };

/** Made by the runtime itself. */
const OWN: readonly string[] = ["/proc", "/sys", "/dev", "/tmp"];

/** Targets are whole paths without dots; `entriesOf` gives none for what is no folder. */
export function rootParts(
  targets: readonly string[],
  entriesOf: (path: string) => readonly RootEntry[],
): readonly RootPart[] {
  const isThere = (path: string): boolean => {
    const at = path.lastIndexOf("/");
    return entriesOf(path.slice(0, at) || "/").some(
      ({ name, kind }) => name === path.slice(at + 1) && kind !== "link",
    );
  };
  const lacking = targets.filter((target) => !isThere(target));
  const partsIn = (folder: string): readonly RootPart[] =>
    sorted(entriesOf(folder === "" ? "/" : folder)).flatMap((entry): readonly RootPart[] => {
      const path = `${folder}/${entry.name}`;
      if (OWN.includes(path) || targets.includes(path)) return [];
      const isOnTheWay = lacking.some((target) => target.startsWith(`${path}/`));
      if (!isOnTheWay)
        return entry.kind === "link"
          ? [{ kind: "link", path, to: entry.to }]
          : [{ kind: "mounted", path }];
      return [{ kind: "made", path }, ...(entry.kind === "folder" ? partsIn(path) : [])];
    });
  return partsIn("");
}

const sorted = (entries: readonly RootEntry[]): readonly RootEntry[] =>
  [...entries].sort((one, other) => (one.name < other.name ? -1 : 1));
