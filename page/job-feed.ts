/** @file What the console tells about the job whose page is open: a stream of its own, from the job's history. */

import { useEffect, useState } from "preact/hooks";
import type { JobPage } from "./job-wire.ts";

/** Undefined until something is known. The browser connects again by itself where the stream breaks off. */
export function useJobPage(job: string): JobPage | undefined {
  const [page, setPage] = useState<JobPage>();
  useEffect(() => {
    setPage(undefined);
    const source = new EventSource(`/api/job-events?job=${encodeURIComponent(job)}`);
    source.onmessage = ({ data }) => setPage(JSON.parse(String(data)) as JobPage);
    return () => source.close();
  }, [job]);
  return page?.job === job ? page : undefined;
}
