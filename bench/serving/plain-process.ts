/** @file What `bench serving --only cold` is compared with: a process that loads a model by onnxruntime as it comes, answers one request, and ends. */

import { readFileSync } from "node:fs";
import { InferenceSession, Tensor } from "onnxruntime-node";
import type { PlainAnswer, PlainRequest } from "./cold-request.ts";

const [model = "", asked = ""] = process.argv.slice(2);
// The bench has written it.
const { name, shape, data } = JSON.parse(readFileSync(asked, "utf8")) as PlainRequest;
const session = await InferenceSession.create(model);
const answers = await session.run({ [name]: new Tensor("float32", data, shape) });
const [first] = session.outputNames;
const output = first === undefined ? undefined : answers[first];
const { user, system } = process.cpuUsage();
const answer: PlainAnswer = {
  data: [...((output?.data ?? []) as Float32Array)],
  cpuMs: (user + system) / 1e3,
};
process.stdout.write(JSON.stringify(answer));
