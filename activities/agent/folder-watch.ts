/**
 * @file Waits for a change in one folder: at once through the system's notifications, and in any case after a pause, because
 * notifications may be missing (network file systems, no watches left). A change between two waits is not lost.
 */

import { watch, type FSWatcher } from "node:fs";

export interface FolderWatch {
  /** Resolves at the next change, after `maxMs`, or when the signal is aborted; the caller looks for itself. */
  changed(maxMs: number, signal?: AbortSignal): Promise<void>;
  close(): void;
}

export function watchFolder(dir: string): FolderWatch {
  let hasChanged = false;
  let wake: (() => void) | undefined;
  let watcher: FSWatcher | undefined;
  try {
    watcher = watch(dir, { persistent: false }, () => {
      hasChanged = true;
      wake?.();
    });
    watcher.on("error", () => watcher?.close());
  } catch {
    // The pause alone does it, more slowly.
  }
  return {
    changed: async (maxMs, signal) => {
      if (!hasChanged && signal?.aborted !== true) {
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, maxMs);
          wake = () => {
            clearTimeout(timer);
            resolve();
          };
          signal?.addEventListener("abort", wake, { once: true });
        });
        if (wake !== undefined) signal?.removeEventListener("abort", wake);
        wake = undefined;
      }
      hasChanged = false;
    },
    close: () => watcher?.close(),
  };
}
