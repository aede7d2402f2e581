/** @file Sends a packed folder to the store of a submit service, in parts; a job names it by the hash of their list. */

import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { FolderRule } from "../domain/job/job-folder.ts";
import { FOLDER_PART_BYTES, type FolderParts } from "../streams/folder-pack.ts";
import { answered, unreachable, type ServiceAddress } from "./service-request.ts";

/** Sending the same folder again changes nothing. Throws the service's refusal, or NO_CONNECTION. */
export async function sendFolder(address: ServiceAddress, packed: Uint8Array): Promise<FolderRule> {
  const bytes = gzipSync(packed);
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += FOLDER_PART_BYTES)
    parts.push((await sendPart(address, bytes.subarray(at, at + FOLDER_PART_BYTES))).hash);
  const list = { parts } satisfies FolderParts;
  return await sendPart(address, Buffer.from(JSON.stringify(list)));
}

async function sendPart(address: ServiceAddress, bytes: Uint8Array): Promise<FolderRule> {
  // The service is of this release and of this project.
  const said = (await answered(address, {
    method: "POST",
    path: "/v1/folders",
    bytes,
  })) as FolderRule;
  if (said.hash === createHash("sha256").update(bytes).digest("hex")) return said;
  throw unreachable(address, "it has taken other bytes than were sent");
}
