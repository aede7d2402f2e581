/** @file The search attributes of a job; SQLite allows 10 Keyword and 3 of each other type for a namespace. */

export type SearchAttributeType =
  "Keyword" | "Int" | "Double" | "Bool" | "Datetime" | "Text" | "KeywordList";

export interface SearchAttribute {
  readonly name: string;
  readonly type: SearchAttributeType;
}

export const SEARCH_ATTRIBUTES = [
  { name: "OrbweaverFleet", type: "Keyword" },
  { name: "OrbweaverHome", type: "Keyword" },
  { name: "OrbweaverClass", type: "Keyword" },
  { name: "OrbweaverTenant", type: "Keyword" },
  { name: "OrbweaverState", type: "Keyword" },
  { name: "OrbweaverCluster", type: "KeywordList" },
  { name: "OrbweaverGpus", type: "Int" },
  { name: "OrbweaverName", type: "Keyword" },
  { name: "OrbweaverUser", type: "Keyword" },
  { name: "OrbweaverLabels", type: "KeywordList" },
] as const satisfies readonly SearchAttribute[];
