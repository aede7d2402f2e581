/** @file The output of a job by rank, live: the last part of it, following the end while the reader stays there. */

import { h, type ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import type { LogEvent } from "../wire.ts";

const MOST_LETTERS = 400_000;

interface Output {
  readonly text: string;
  readonly state: "reading" | "ended" | "broken";
  readonly trouble?: string;
}

/** Opens the stream only when the reader wants it: it costs the job's hosts some work. */
export function Logs({
  job,
  ranks,
}: {
  readonly job: string;
  readonly ranks: number;
}): ComponentChildren {
  const [rank, setRank] = useState<number>();
  const output = useOutput(job, rank);
  const box = useRef<HTMLPreElement>(null);
  const isAtEnd = useRef(true);
  useEffect(() => {
    if (box.current && isAtEnd.current) box.current.scrollTop = box.current.scrollHeight;
  }, [output.text]);
  return h(
    "div",
    { class: "card" },
    h("h3", null, "Output"),
    h(
      "div",
      { class: "bar" },
      h(
        "label",
        null,
        "Rank ",
        h("input", {
          type: "number",
          class: "rank",
          min: 0,
          max: Math.max(0, ranks - 1),
          value: rank ?? 0,
          onChange: (event: Event) => setRank(Number((event.target as HTMLInputElement).value)),
        }),
      ),
      rank === undefined
        ? h("button", { onClick: () => setRank(0) }, "Show live")
        : h("button", { onClick: () => setRank(undefined) }, "Close"),
      h(
        "span",
        { class: output.trouble === undefined ? "quiet" : "bad", role: "status" },
        rank === undefined ? `orbweaver logs ${job}` : (output.trouble ?? WORDS[output.state]),
      ),
    ),
    rank !== undefined &&
      h(
        "pre",
        {
          class: "output",
          ref: box,
          tabIndex: 0,
          role: "log",
          "aria-label": `Output of rank ${rank}`,
          onScroll: () => void (isAtEnd.current = isAtEndOf(box.current)),
        },
        output.text,
      ),
  );
}

const isAtEndOf = (box: HTMLElement | null): boolean =>
  box === null || box.scrollTop + box.clientHeight > box.scrollHeight - 20;

const WORDS: Readonly<Record<Output["state"], string>> = {
  reading: "following",
  ended: "the job has ended",
  broken: "the console does not answer",
};

function useOutput(job: string, rank: number | undefined): Output {
  const [output, setOutput] = useState<Output>({ text: "", state: "reading" });
  useEffect(() => {
    setOutput({ text: "", state: "reading" });
    if (rank === undefined) return;
    const source = new EventSource(`/api/logs?job=${encodeURIComponent(job)}&rank=${rank}`);
    source.onmessage = ({ data }) => {
      const event = JSON.parse(String(data)) as LogEvent;
      if ("isEnd" in event) source.close();
      setOutput((former) => after(former, event));
    };
    source.onerror = () => {
      source.close();
      setOutput((former) => ({ ...former, state: "broken" }));
    };
    return () => source.close();
  }, [job, rank]);
  return output;
}

function after(former: Output, event: LogEvent): Output {
  if ("isEnd" in event)
    return {
      ...{ text: former.text, state: "ended" },
      ...(event.trouble !== undefined && { trouble: event.trouble }),
    };
  const more = "text" in event ? event.text : `── attempt ${event.attempt} ──\n`;
  return { ...former, text: (former.text + more).slice(-MOST_LETTERS) };
}
