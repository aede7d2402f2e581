/** @file What the console tells about the job whose page is open: a stream of its own, from the job's history. */

import { useEffect, useState } from "preact/hooks";
import type { JobPage } from "./job-wire.ts";

/** After the server refused the stream: it has no room for more, or starts. */
const REOPEN_MS = 5_000;

/** Undefined until something is known. The browser connects again by itself where the stream breaks off, but not where it was refused. */
export function useJobPage(job: string): JobPage | undefined {
  const [page, setPage] = useState<JobPage>();
  useEffect(() => {
    setPage(undefined);
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const open = (): void => {
      const opened = new EventSource(`/api/job-events?job=${encodeURIComponent(job)}`);
      source = opened;
      opened.onmessage = ({ data }) => {
        const now = JSON.parse(String(data)) as JobPage;
        setPage(now);
        // Nothing more comes, and the next stream would tell it all again.
        if (now.ended !== undefined) opened.close();
      };
      opened.onerror = () => {
        if (opened.readyState === EventSource.CLOSED) timer = setTimeout(open, REOPEN_MS);
      };
    };
    open();
    return () => {
      clearTimeout(timer);
      source?.close();
    };
  }, [job]);
  return page?.job === job ? page : undefined;
}
