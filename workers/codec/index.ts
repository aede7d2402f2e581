/**
 * @file `orbweaver/codec`: the payload codecs that your own Temporal client needs to read everything that Orbweaver writes.
 *
 * `new Client({ connection, dataConverter: { payloadCodecs: orbweaverCodecs({ keyFile }) } })`
 */

import type { PayloadCodec } from "@temporalio/common";
import { ownCodecs } from "./converters.ts";
import { openKeyRing } from "./key-ring.ts";

export function orbweaverCodecs({ keyFile }: { readonly keyFile?: string } = {}): PayloadCodec[] {
  return ownCodecs(keyFile === undefined ? undefined : openKeyRing(keyFile), "fail");
}
