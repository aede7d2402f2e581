/** @file Which runtimes start images on the hosts of a fleet, and what the weaker ones do not guarantee. */

import type { FleetTrust } from "../../client/agent-trust.ts";
import { countedDo } from "../terminal/duration.ts";

/** Nothing where no host starts images. */
export function imageLines({ images }: Pick<FleetTrust, "images">): readonly string[] {
  if (images.every(({ runtimes }) => runtimes.length === 0)) return [];
  return images.flatMap(({ runtimes, hosts }) => {
    if (runtimes.length === 0)
      return [`images: ${countedDo(hosts, "host", "have no runtime for them")}`];
    const missing = runtimes.flatMap((runtime) => MISSING[runtime] ?? []);
    return [
      `images: ${countedDo(hosts, "host", "start them")} by ${runtimes.join(", ")}`,
      ...(missing.length === 0 ? [] : [`  not guaranteed: ${missing.join("; ")}`]),
    ];
  });
}

const MISSING: Readonly<Partial<Record<string, string>>> = {
  docker: "docker's containers are outside of a launch's limits, and found by marks alone",
  apptainer: "apptainer shows every GPU of its host",
};
