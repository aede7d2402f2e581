/** @file The story of a world in lines, and its end as a sequence diagram (Mermaid). The same story gives the same text, byte for byte. */

import type { StoryLine } from "../kernel/kernel.ts";
import type { Outcome } from "../world.ts";

/** Lines of the diagram: the last ones before the violation. */
const DIAGRAM_LINES = 40;

export function tellStory({ story, violation }: Outcome): string {
  const lines = story.map(
    ({ atMs, from, to, what }) =>
      `${(atMs / 1_000).toFixed(3).padStart(9)} s  ${from === to ? from : `${from} → ${to}`}: ${what}`,
  );
  const end =
    violation === undefined
      ? "Nothing is wrong."
      : `${(violation.atMs / 1_000).toFixed(3).padStart(9)} s  VIOLATION of "${violation.law}": ${violation.message}`;
  return [...lines, end].join("\n");
}

export function diagram({ story, violation }: Outcome): string {
  const shown = story.slice(-DIAGRAM_LINES);
  const names = new Map<string, string>();
  const nameOf = (party: string): string => {
    const known = names.get(party);
    if (known !== undefined) return known;
    const name = `p${names.size + 1}`;
    names.set(party, name);
    return name;
  };
  const messages = shown.map(({ atMs, from, to, what }: StoryLine) => {
    const text = `${(atMs / 1_000).toFixed(1)} s ${what}`.replaceAll(/[;:#]/g, ",");
    return `    ${nameOf(from)}->>${nameOf(to)}: ${text}`;
  });
  const parties = [...names].map(([party, name]) => `    participant ${name} as ${party}`);
  const last = [...names.values()].at(-1);
  const note =
    violation === undefined || last === undefined
      ? []
      : [
          `    Note over ${last}: ${violation.law}, ${violation.message.replaceAll(/[;:#]/g, ",").slice(0, 120)}`,
        ];
  return ["```mermaid", "sequenceDiagram", ...parties, ...messages, ...note, "```"].join("\n");
}
