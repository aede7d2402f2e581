/** @file What goes to the activity that checks words: less than the server takes for one, whatever a word and its proof have, and no word that large is believed. */

import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { formatProof, type WordsToCheck } from "../../../protocol/word-proof.ts";

const asked: { readonly list: WordsToCheck; readonly values: Uint8Array }[] = [];
beforeAll(() => {
  vi.resetModules();
  // As the SDK's, without its sandbox.
  vi.doMock("@temporalio/workflow", () => ({
    patched: () => true,
    proxyLocalActivities: () => ({}),
    workflowInfo: () => ({ workflowId: "w", startTime: new Date(0), memo: {} }),
  }));
});
afterAll(() => {
  vi.doUnmock("@temporalio/workflow");
  vi.resetModules();
});

/** Of a signal, and of what an activity is asked. */
const SERVER_TAKES_BYTES = 2 * 1024 * 1024;
const proofOf = (nonce: string): string =>
  formatProof({
    ...{ role: "agent", key: `ed25519:${"k".repeat(43)}`, atMs: 1_000 },
    ...{ nonce: nonce.repeat(22), signature: "s".repeat(86) },
  });

test.each([
  ["a value of 2 MiB", proofOf("a"), SERVER_TAKES_BYTES - 200],
  ["a value of a byte more than 1 MiB", proofOf("b"), 1024 * 1024 + 1],
  ["a proof of 3 MB that is none", "p".repeat(3_000_000), 10],
])("%s is not believed, and the question about it is small", async (_, proof, bytes) => {
  const { areWordsWaiting, checkWaiting, holdBack } =
    await import("../../../workflows/runtime/word-gate.ts");
  const said: string[] = [];
  for (const word of [
    { proof, value: new Uint8Array(bytes) },
    { proof: proofOf("c"), value: new Uint8Array(10) },
  ])
    holdBack({
      ...{ signal: "announce", sender: "mallory", word },
      hear: () => said.push("heard"),
      refuse: (reason) => said.push(reason),
    });
  // Whoever judges them passes all that it takes for signed.
  const checkWords = (list: WordsToCheck, values: Uint8Array) => {
    asked.push({ list, values });
    const unsigned = list.words.flatMap(({ proof: text = "" }, at) =>
      text[0] === "p" ? [at] : [],
    );
    return Promise.resolve({ refused: [{ reason: "no proof", words: unsigned }] });
  };
  while (areWordsWaiting()) (await checkWaiting({ checkWords }))();
  expect(said).toEqual([
    expect.stringMatching(/larger ones are not read|no proof/),
    expect.stringMatching(/heard|said before/),
  ]);
  for (const { list, values } of asked.splice(0))
    expect(JSON.stringify(list).length + values.length).toBeLessThan(10_000);
});
