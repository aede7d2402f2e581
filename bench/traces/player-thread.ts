/** @file The thread of a player (player.ts): plays what it is told, one simulation after the other. */

import { parentPort, workerData } from "node:worker_threads";
import { playerHere, type PlayTask, type PlayTerms, type ThreadWord } from "./player.ts";

const tell = (word: ThreadWord): void => parentPort?.postMessage(word);

const player = playerHere(workerData as PlayTerms, {
  say: (line) => tell({ kind: "say", line }),
  // The one who opened the thread ends it.
  interrupted: new AbortController().signal,
});

parentPort?.on("message", (task: PlayTask) => {
  player.play(task).then(
    (figures) => tell({ kind: "played", figures }),
    (error: unknown) => tell({ kind: "failed", error }),
  );
});
