/** @file What an agent tells of its hosts with a heartbeat, by host, as it is read from outside. */

import { isFields } from "../../lib/fields.ts";
import { parseHostId, type HostId } from "../values/ids.ts";

/** `part`: of the heartbeat. A heartbeat is untrusted data: what has another form is left out, as is each host of which `read` makes nothing. */
export function toldByHost<Told>(
  details: unknown,
  part: string,
  read: (said: unknown) => Told | undefined,
): ReadonlyMap<HostId, Told> {
  const hosts = isFields(details) ? details[part] : undefined;
  const told = new Map<HostId, Told>();
  for (const [host, said] of isFields(hosts) ? Object.entries(hosts) : []) {
    const found = /^[^/\s]+\/[^/\s]+$/.test(host) ? read(said) : undefined;
    if (found !== undefined) told.set(parseHostId(host), found);
  }
  return told;
}
