/** @file The runtimes of this machine for images, as the agent's logic sees them. */

import type { ProcessLimits } from "../../access/run-as.ts";
import type { ImageTool, RootEntry } from "../images/image-launch.ts";

export interface Images {
  /** Those that work here. */
  readonly tools: readonly ImageTool[];
  /** Of the agent's process. */
  readonly ids: { readonly uid: number; readonly gid: number };
  readonly limits: ProcessLimits;
  /** What is in a folder of an unpacked root; none where there is no such folder. */
  entriesOf(root: string, path: string): readonly RootEntry[];
}
