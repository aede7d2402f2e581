/** @file The embedded Temporal server: find or make its program, start it, give it our search attributes. */
export { withoutTemporal } from "./environment.ts";
export { findServer, provideServerBinary } from "./find.ts";
export type { FindOptions, GivenServer, ProvideOptions, ServerBinary } from "./find.ts";
export { progressLine, progressPrinter } from "./progress.ts";
export type { OnProgress, Progress } from "./progress.ts";
export { ensureSearchAttributes, missingSearchAttributes } from "./search-attributes.ts";
export { startServer } from "./start.ts";
export type { DynamicConfig, RunningServer, ServerExit, StartOptions } from "./start.ts";
export { PINNED_SERVER } from "./version.ts";
