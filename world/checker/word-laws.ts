/** @file The laws of what fleets, lobbies and jobs say to each other, as one: each hears the words that it judges. */

import { createCountLaws, type CountLaws } from "./count-laws.ts";
import { createPromptLaws, type Calm, type PromptLaws } from "./prompt-laws.ts";
import { createRequestLaws, type RequestLaws } from "./request-laws.ts";

export interface WordLaws extends Omit<PromptLaws, "ledgerChanged"> {
  readonly ledgerChanged: RequestLaws["ledgerChanged"];
  readonly fleetTold: CountLaws["fleetTold"];
  readonly jobReset: RequestLaws["jobReset"];
  readonly runBegan: RequestLaws["runBegan"];
}

export function createWordLaws(
  calm: Calm,
  violate: (law: string, message: string) => void,
): WordLaws {
  const prompt = createPromptLaws(calm, violate);
  const requests = createRequestLaws(violate);
  const counts = createCountLaws(violate);
  return {
    ...prompt,
    jobReset: requests.jobReset,
    runBegan: requests.runBegan,
    ledgerChanged: (ledger, isRecovering) => {
      prompt.ledgerChanged(ledger);
      requests.ledgerChanged(ledger, isRecovering);
    },
    called: (lobby, call) => {
      prompt.called(lobby, call);
      counts.called(lobby, call);
    },
    fleetTold: (entries) => {
      requests.fleetTold(entries);
      counts.fleetTold(entries);
    },
    lobbyTold: (lobby, word) => {
      prompt.lobbyTold(lobby, word);
      if (word.isBroken === true) return;
      counts.lobbyTold(lobby, word);
      if (word.name === "lobby-leave") requests.leftLobby(word.payload, word.atMs);
    },
  };
}
