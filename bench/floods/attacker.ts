/**
 * @file The attacker, as a process of its own, so that what it costs to send a flood delays nobody's job: `node attacker.js <order>`.
 *
 * Answers over its IPC channel with how many calls the server took, then ends.
 */

import { Client, Connection } from "@temporalio/client";
import { OrbweaverClient } from "../../client/index.ts";
import { WORD_ROLES } from "../../protocol/messages.ts";
import { signingInterceptor, wordProver } from "../../workers/word-signer.ts";
import type { FloodSize } from "./flood.ts";
import { FLOODS, type FloodName } from "./floods.ts";

export interface AttackOrder extends FloodSize {
  readonly flood: FloodName;
  readonly address: string;
  readonly fleet: string;
}

const [text = "{}"] = process.argv.slice(2);
const { flood, address, fleet, ...size } = JSON.parse(text) as AttackOrder;
const connection = await Connection.connect({ address });
// Its words are believed: an attacker without a worker's keys has less to flood with.
const temporal = new Client({
  connection,
  interceptors: { workflow: [signingInterceptor(wordProver(WORD_ROLES))] },
});
const orbweaver = new OrbweaverClient(temporal, { fleet });
const taken = await FLOODS[flood]({ fleet, temporal, orbweaver }, size);
// Not by closing the connection: the client goes on to retry calls on it, and throws.
process.send?.({ taken }, () => process.exit());
