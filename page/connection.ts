/** @file The stream of the console: opened once, resumed by the browser itself; shows a token once where the console wants one. */

import type { Store } from "./store.ts";
import type { Message } from "./wire.ts";

/** A token comes in the address behind `#`, which no server sees. */
export async function connect(store: Store): Promise<void> {
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token !== null) {
    history.replaceState(null, "", location.pathname + location.search);
    await fetch("/api/session", { method: "POST", headers: { Authorization: `Bearer ${token}` } });
  }
  open(store);
}

const AGAIN_MS = 2_000;

function open(store: Store): void {
  const source = new EventSource("/api/events");
  source.onopen = () => store.setConnected(true);
  source.onmessage = ({ data }) => store.take(JSON.parse(String(data)) as Message);
  source.onerror = () => {
    store.setConnected(false);
    // The browser gives up only when the console refuses it.
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => open(store), AGAIN_MS);
  };
}
