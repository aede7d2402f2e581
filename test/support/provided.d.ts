/** @file What the setup of the tests on a server hands to them through vitest's `inject`. */
import "vitest";

declare module "vitest" {
  export interface ProvidedContext {
    /** A Temporal server, `host:port`, for each of the files that run at the same time. */
    readonly temporalAddresses: readonly string[];
  }
}
