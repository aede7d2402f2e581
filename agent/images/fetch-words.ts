/** @file The commands by which a runtime has an image at hand before a launch starts it: whether it is there, and how it is fetched. Pure. */

import { imageForm } from "../../domain/job/job-image.ts";
import { apptainerImage } from "./apptainer.ts";
import type { ImageTool } from "./image-launch.ts";

export interface FetchWords {
  /** Ends with 0 where the image is there. Absent where only fetching says so. */
  readonly look?: readonly string[];
  /** May be repeated: what is there is not fetched again. */
  readonly fetch: readonly string[];
}

/** Undefined for an image that is a path of the host. */
export function fetchWords(image: string, { runtime, path }: ImageTool): FetchWords | undefined {
  if (imageForm(image) !== "reference") return undefined;
  if (runtime === "apptainer")
    return { fetch: [path, "exec", "--contain", "--no-home", apptainerImage(image), "true"] };
  return {
    look: [path, "image", "inspect", "--format", "{{.Id}}", image],
    fetch: [path, "pull", "--quiet", image],
  };
}
