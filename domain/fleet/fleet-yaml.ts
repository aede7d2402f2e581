/** @file Writes fleet files, whole or one host of them, as `parseFleetYaml` reads them. */

import { stringify } from "yaml";
import type { FleetFile, HostEntry } from "./fleet-schema.ts";

/** Lets editors complete the file and mark its problems. */
const EDITOR_LINE = "# yaml-language-server: $schema=";

/** `schema` is the path or address of `fleet.schema.json` as seen from the file. */
export function fleetYaml(file: FleetFile, schema?: string): string {
  return `${schema === undefined ? "" : `${EDITOR_LINE}${schema}\n`}${stringify(file, { lineWidth: 100 })}`;
}

/** Entries for `hosts:` of a cluster; `indent` is that of the dash. */
export function hostYaml(hosts: readonly HostEntry[], indent = 0): string {
  const text = stringify(hosts, { lineWidth: 100 });
  return text.replace(/^(?=.)/gm, " ".repeat(indent));
}
