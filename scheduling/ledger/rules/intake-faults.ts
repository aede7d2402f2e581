/**
 * @file Checks from scratch what a ledger knows of the requests that wait outside: one line for each violation.
 *
 * Cost: O(intake). Replayed: a change of behaviour here needs a new version of the rules (`NEWEST_RULES`).
 */

import { JOB_CLASSES } from "../../../domain/job/job.ts";
import type { TenantId } from "../../../domain/values/ids.ts";
import type { LobbyAccount } from "../intake.ts";
import type { Ledger } from "../ledger.ts";
import { sumOf } from "./places.ts";

export function intakeFaults({ intake, requests }: Pick<Ledger, "intake" | "requests">): string[] {
  if (intake === undefined) return [];
  const { lobbies, news, nextCredit } = intake;
  const faults: string[] = [];
  for (const [job, row] of news) {
    if (row.jobId !== job) faults.push(`4: the row of ${row.jobId} is kept under ${job}`);
    if (requests.has(job)) faults.push(`4: ${job} waits inside and outside`);
  }
  for (const [tenant, account] of lobbies) faults.push(...lobbyFaults(tenant, account, nextCredit));
  const numbers = [...lobbies.values()].flatMap(({ credits }) => [...credits.keys()]);
  if (new Set(numbers).size < numbers.length) faults.push("5: a credit is out twice");
  return faults;
}

function lobbyFaults(
  tenant: TenantId,
  { waiting, credits, deficit }: LobbyAccount,
  nextCredit: number,
): string[] {
  const faults: string[] = [];
  if (sumOf(waiting) + credits.size === 0) faults.push(`5: the lobby of ${tenant} is empty`);
  if (!(deficit >= 0 && deficit < 1)) faults.push(`5: the lobby of ${tenant} is due ${deficit}`);
  for (const number of credits.keys())
    if (number >= nextCredit)
      faults.push(`5: the lobby of ${tenant} has credit ${number}; the next is ${nextCredit}`);
  for (const name of JOB_CLASSES)
    if (!(waiting[name] >= 0)) faults.push(`5: ${waiting[name]} ${name} jobs wait for ${tenant}`);
  return faults;
}
