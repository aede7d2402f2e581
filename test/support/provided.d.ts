/** @file What the integration project's setup hands to its tests through vitest's `inject`. */
import "vitest";

declare module "vitest" {
  export interface ProvidedContext {
    /** The one Temporal server of the run, `host:port`, namespace `default`. */
    readonly temporalAddress: string;
  }
}
