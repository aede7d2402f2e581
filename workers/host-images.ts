/** @file The runtimes by which this agent's hosts start images: those that work on the machine, as far as the host's policy allows them at the moment. */

import type { HostTrust } from "../access/host-trust.ts";
import { becomeUser, hostUser, withinOwnLimits } from "../access/run-as.ts";
import type { Images } from "../agent/ports/images.ts";
import { nodeImages } from "../agent/system/node-images.ts";

/** `native`: the native supervisor, where there is one. */
export function hostImages(now: () => HostTrust, native: string | undefined): Images {
  const trust = now();
  const policy = trust.kind === "policy" ? trust.policy : undefined;
  const [user] = Object.values(policy?.users ?? {}).sort();
  const isOther = user !== undefined && process.getuid?.() === 0;
  const images = nodeImages({
    env: process.env,
    native,
    // What root may do says nothing of what its jobs may.
    ...(isOther &&
      policy !== undefined && {
        become: becomeUser({ user: hostUser(user), limits: withinOwnLimits(policy.limits) }),
      }),
  });
  return {
    ...images,
    get tools() {
      const found = now();
      const allowed = found.kind === "policy" ? found.policy.containers?.runtimes : undefined;
      return images.tools.filter(({ runtime }) => allowed?.includes(runtime) !== false);
    },
  };
}
