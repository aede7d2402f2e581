/** What a fleet asks proof of, as its memo says, and what counts where there is no fleet. */

import { WorkflowNotFoundError, type Client } from "@temporalio/client";
import { expect, it } from "vitest";
import { askedNow } from "../../activities/signed-fleets.ts";
import { createJobActivities } from "../../activities/job-activities.ts";
import { hostId } from "../../domain/values/ids.ts";
import { UNREADABLE } from "../../protocol/unreadable.ts";
import { ATTENDANTS_MEMO, ORDERS_MEMO, SIGNED_WORDS, WORDS_MEMO } from "../../protocol/messages.ts";

/** Of a server that has this one fleet, with this memo; undefined: none. */
const serverWith = (memo?: Record<string, unknown>): Client => {
  const describe = (): Promise<object> =>
    memo === undefined
      ? Promise.reject(new WorkflowNotFoundError("none", "orbweaver-fleet-f", undefined))
      : Promise.resolve({ memo });
  return { workflow: { getHandle: () => ({ describe }) } } as unknown as Client;
};

const WORDS = { [WORDS_MEMO]: SIGNED_WORDS };

it.each([
  [{}, "nothing"],
  [WORDS, "signals"],
  [{ ...WORDS, [ORDERS_MEMO]: SIGNED_WORDS }, "orders"],
  [{ ...WORDS, [ORDERS_MEMO]: SIGNED_WORDS, [ATTENDANTS_MEMO]: SIGNED_WORDS }, "all"],
])("a fleet whose memo is %j asks proof of %s", async (memo, want) => {
  expect(await askedNow(serverWith(memo), "orbweaver-fleet-f")).toBe(want);
});

it("a fleet whose memo cannot be read is no fleet that asks for nothing", async () => {
  for (const name of [WORDS_MEMO, ORDERS_MEMO, ATTENDANTS_MEMO])
    await expect(
      askedNow(serverWith({ ...WORDS, [name]: UNREADABLE }), "orbweaver-fleet-f"),
    ).rejects.toMatchObject({ code: "PAYLOAD_UNREADABLE" });
});

it("who starts a learner of a fleet that never was has it believe nothing without a proof", async () => {
  const asked = (memo?: Record<string, unknown>): Promise<boolean> =>
    createJobActivities(serverWith(memo)).asksForProof("orbweaver-fleet-f");
  expect(await asked()).toBe(true);
  // A fleet of former rules is there, and its agents sign nothing.
  expect(await asked(WORDS)).toBe(false);
});

it("with keys nobody who came in the open is answered, but for who came before them", async () => {
  const keys = { isBinding: () => true, sinceMs: () => 1_000 };
  const { asksForProof, findHost, silenceTerms } = createJobActivities(serverWith(WORDS), keys);
  const open = { flaw: "open" } as const;
  const refused = { type: "NOT_ALLOWED", nonRetryable: true };
  const fleet = "orbweaver-fleet-f";
  await expect(asksForProof(fleet, open)).rejects.toMatchObject(refused);
  await expect(findHost(fleet, hostId("a", "h"), open)).rejects.toMatchObject(refused);
  await expect(silenceTerms(fleet, "a", open)).rejects.toMatchObject(refused);
  await expect(asksForProof(fleet, { flaw: "unbound", atMs: 1_001 })).rejects.toMatchObject(
    refused,
  );
  expect(await asksForProof(fleet, { flaw: "open", atMs: 999 })).toBe(false);
  expect(await asksForProof(fleet)).toBe(false);
  expect(await createJobActivities(serverWith(WORDS)).asksForProof(fleet, open)).toBe(false);
});
