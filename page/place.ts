/** @file Where the reader is: the view, the chosen job and the filters, all in the address, so that it can be sent and gone back from. */

import { useEffect, useState } from "preact/hooks";

export const VIEWS = [
  "map",
  "queue",
  "tenants",
  "hosts",
  "decisions",
  "whatif",
  "job",
  "host",
] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  readonly view: View;
  /** Everything else in the address. */
  readonly get: (name: string) => string;
}

export type Go = (changes: Readonly<Record<string, string | undefined>>, isSmall?: boolean) => void;

function read(): Place {
  const search = new URLSearchParams(location.search);
  const said = search.get("view");
  const view = VIEWS.find((name) => name === said) ?? "map";
  return { view, get: (name) => search.get(name) ?? "" };
}

/** A small change (a letter in a search) replaces the last place instead of adding one to go back to. */
export function usePlace(): readonly [Place, Go] {
  const [place, setPlace] = useState(read);
  useEffect(() => {
    const back = (): void => setPlace(read());
    addEventListener("popstate", back);
    return () => removeEventListener("popstate", back);
  }, []);
  const go: Go = (changes, isSmall = false) => {
    const search = new URLSearchParams(location.search);
    for (const [name, value] of Object.entries(changes))
      if (value === undefined || value === "") search.delete(name);
      else search.set(name, value);
    const address = `${location.pathname}?${search.toString()}`;
    if (isSmall) history.replaceState(null, "", address);
    else history.pushState(null, "", address);
    setPlace(read());
  };
  return [place, go];
}
