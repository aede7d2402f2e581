/** @file What every view of the page is given: the tables, where the reader is, and the way to another place. */

import type { Go, Place } from "../place.ts";
import type { Store } from "../store.ts";

export interface ViewProps {
  readonly store: Store;
  readonly place: Place;
  readonly go: Go;
}
