/**
 * @file The way of entries into a fleet's inbox, as `activities/inbox.ts` has it: one batch of a worker is on its way at a time, and a closed fleet is
 * started again by the first sender of an entry.
 */

import type { InboxEntry } from "../../domain/lease/inbox-entry.ts";
import type { NotifyResult } from "../../protocol/control-contract.ts";
import type { FleetInput } from "../../protocol/fleet.ts";
import { packLedger, unpackLedger } from "../../scheduling/ledger/codec.ts";
import { ledgerAfterLoss, RECOVER_AFTER_MS } from "../../scheduling/ledger/lost-ledger.ts";
import type { Network } from "../kernel/network.ts";
import { sleep, type Process, type Task } from "../kernel/process.ts";
import type { Server } from "../temporal/server.ts";

const GAP_MS = 25;

interface Waiting {
  readonly entry: InboxEntry;
  readonly resume: (result: NotifyResult | undefined) => void;
}

/** Of one worker. */
export interface Inbox {
  readonly tell: (fleet: string, entry: InboxEntry) => Task<NotifyResult | undefined>;
}

export function createInbox(server: Server, network: Network, process: Process): Inbox {
  const { kernel } = server;
  let queue: Waiting[] = [];
  let busy = 0;

  function* pump(fleet: string): Task<void> {
    // The entries of one turn of the event loop leave together.
    yield* sleep(kernel, 0);
    while (queue.length > 0) {
      const batch = queue;
      queue = [];
      const payload = batch.map(({ entry }) => entry);
      const reply = yield* network.call(process, () => {
        if (server.signal(fleet, { name: "inbox", payload })) return "delivered";
        return reviveFleet(server, fleet) ? "again" : "none";
      });
      if (reply.isHeard && reply.value === "again") queue = [...batch, ...queue];
      else {
        const isThere = reply.isHeard && reply.value === "delivered";
        const none: NotifyResult = { kind: "no-fleet", message: `no open workflow ${fleet}` };
        const result = !reply.isHeard ? undefined : isThere ? DELIVERED : none;
        for (const { resume } of batch) resume(result);
      }
      yield* sleep(kernel, GAP_MS);
    }
    busy = 0;
  }

  return {
    *tell(fleet, entry) {
      const result = yield (resume) => {
        // What an earlier process of this name had in memory is gone.
        if (busy !== process.incarnation()) queue = [];
        queue.push({ entry, resume });
        if (busy === process.incarnation()) return;
        busy = process.incarnation();
        process.spawn(pump(fleet));
      };
      return result as NotifyResult | undefined; // as resumed by the pump
    },
  };
}

const DELIVERED: NotifyResult = { kind: "delivered" };

/** As `activities/revive-fleet.ts` does. False where there never was such a fleet. */
export function reviveFleet(server: Server, workflowId: string): boolean {
  const last = server.lastRun(workflowId);
  if (last === undefined) return false;
  if (last.run.isOpen()) return true;
  const input = last.input as FleetInput; // of a fleet
  const revived: FleetInput = {
    name: input.name,
    rules: input.ledger.applyVersion,
    isRecovering: true,
    recoverAtMs: RECOVER_AFTER_MS.map((afterMs) => server.clockMs() + afterMs),
    ledger: packLedger(ledgerAfterLoss(unpackLedger(input.ledger))),
  };
  server.kernel.tell("a worker", workflowId, () => "starts the fleet again");
  server.start("fleet", workflowId, revived);
  return true;
}
