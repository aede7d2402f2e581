/**
 * @file Waits for a change in one folder: at once through the system's notifications, and in any case after a pause, because
 * notifications may be missing (network file systems, no watches left). A change between two waits is not lost.
 */

import type { System } from "../ports/system.ts";

export interface FolderWatch {
  /** Resolves at the next change, after `maxMs`, or when the signal is aborted; the caller looks for itself. */
  changed(maxMs: number, signal?: AbortSignal): Promise<void>;
  close(): void;
}

export function watchFolder(
  { files, clock }: Pick<System, "files" | "clock">,
  dir: string,
): FolderWatch {
  let hasChanged = false;
  let wake: (() => void) | undefined;
  const close = files.watch(dir, () => {
    hasChanged = true;
    wake?.();
  });
  return {
    changed: async (maxMs, signal) => {
      if (!hasChanged && signal?.aborted !== true) {
        const bell = new AbortController();
        wake = () => bell.abort();
        signal?.addEventListener("abort", wake, { once: true });
        await clock.pause(maxMs, bell.signal);
        signal?.removeEventListener("abort", wake);
        wake = undefined;
      }
      hasChanged = false;
    },
    close,
  };
}
