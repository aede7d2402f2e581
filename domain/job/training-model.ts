/** @file Reads what a request says it trains (training-text.ts): the model, the batch, the framework. The text may come from anybody. */

import { isFields } from "../../lib/fields.ts";
import { parsedJson } from "../../lib/parsed-json.ts";
import { FRAMEWORKS, type FrameworkChoice } from "../model/framework-names.ts";
import { jobModel, type JobModel } from "./job-model.ts";

export interface Training {
  readonly model: JobModel;
  readonly batch: number;
  readonly framework?: FrameworkChoice;
}

/** Undefined for a text that says no model of a known shape. */
export function parseTraining(text: string): Training | undefined {
  const said = parsedJson(text);
  if (!isFields(said)) return undefined;
  const { model, modelConfig, batch, sequence } = said;
  const framework = FRAMEWORKS.find((name) => name === said["framework"]);
  if (!isCount(batch)) return undefined;
  const found = jobModel({
    ...(typeof model === "string" && { model }),
    ...(isFields(modelConfig) && { modelConfig }),
    ...(isCount(sequence) && { sequence }),
  });
  return found && { model: found, batch, ...(framework !== undefined && { framework }) };
}

/** The model as the job file names it; undefined where its configuration says it, or the text says none. */
export function trainedName(text: string): string | undefined {
  const said = parsedJson(text);
  const model = isFields(said) ? said["model"] : undefined;
  return typeof model === "string" && model !== "" ? model : undefined;
}

const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) > 0;
