/** @file The runtimes by which this agent's hosts start images: those that work on the machine, as far as the host's policy allows them. */

import type { HostTrust } from "../access/host-trust.ts";
import type { Images } from "../agent/ports/images.ts";
import { nodeImages } from "../agent/system/node-images.ts";

/** `native`: the native supervisor, where there is one. */
export function hostImages(trust: HostTrust, native: string | undefined): Images {
  const images = nodeImages({ path: process.env["PATH"], native });
  const allowed = trust.kind === "policy" ? trust.policy.containers?.runtimes : undefined;
  return allowed === undefined
    ? images
    : { ...images, tools: images.tools.filter(({ runtime }) => allowed.includes(runtime)) };
}
