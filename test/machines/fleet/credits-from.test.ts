/** @file What a fleet that has lost its ledger says of the credits that the present one has given, each time that it asks. */

import { expect, it } from "vitest";
import { tenantId } from "../../../domain/values/ids.ts";
import { fleetMachine, openFleet } from "../../../machines/fleet/fleet.ts";
import { emptyLedger } from "../../../scheduling/ledger/apply/apply.ts";
import { packLedger } from "../../../scheduling/ledger/codec.ts";
import { NO_INTAKE, type LobbyAccount } from "../../../scheduling/ledger/intake.ts";
import { fleetShape } from "../../scheduling/builders.ts";
import { play } from "../harness.ts";

const SHAPE = fleetShape([{ hosts: [{}] }]);

const account = (...numbers: readonly number[]): LobbyAccount => ({
  report: 1,
  waiting: { inference: 0, interactive: 0, training: 3 },
  deficit: 0,
  credits: new Map(
    numbers.map((number) => [number, { class: "training", givenAtMs: 0, isAnnounced: true }]),
  ),
});

it.each([
  ["the lowest that is out", { red: account(12, 14), blue: account(11) }, 11],
  ["the next one where none is out", { red: account() }, 20],
])("names %s", (_what, accounts, creditsFrom) => {
  const lobbies = new Map(Object.entries(accounts).map(([name, each]) => [tenantId(name), each]));
  const ledger = { ...emptyLedger(SHAPE), intake: { ...NO_INTAKE, nextCredit: 20, lobbies } };
  const input = {
    name: "eu",
    ledger: packLedger(ledger),
    isRecovering: true as const,
    recoverAtMs: [0],
  };
  const fleet = play(fleetMachine, { state: openFleet(input, 0, 0), commands: [] });
  fleet.feed({ kind: "tick" }, 0);
  expect(fleet.open.find(({ kind }) => kind === "recover")).toMatchObject({
    order: { isLedgerLost: true, creditsFrom },
  });
});
