/**
 * @file A stand-in for vLLM and SGLang: speaks the OpenAI API, with events or without, by a stated service model and no model at all.
 *
 * Every STEP_MS one token of each running request comes, of at most SEATS requests at once. A request has `max_tokens` tokens: `t0 t1 …`. On TERM it
 * refuses new requests and answers those that run; with ABRUPT=1 it ends at once. It starts after LOAD_MS.
 */

import { createServer } from "node:http";

const { MASTER_PORT = "0", STEP_MS = "10", SEATS = "6", LOAD_MS = "300", ABRUPT } = process.env;
const waiting = [];
let running = [];
let isEnding = false;

const event = (value) => `data: ${JSON.stringify(value)}\n\n`;
const chunk = (text) => ({ object: "text_completion", choices: [{ index: 0, text }] });

setInterval(() => {
  while (running.length < Number(SEATS) && waiting.length > 0) running.push(waiting.shift());
  for (const each of running) {
    const text = `t${each.done} `;
    each.done += 1;
    each.text += text;
    if (each.isStream) each.response.write(event(chunk(text)));
    if (each.done < each.tokens) continue;
    if (each.isStream) each.response.end("data: [DONE]\n\n");
    else
      each.response
        .writeHead(200, { "content-type": "application/json" })
        .end(JSON.stringify(chunk(each.text)));
  }
  running = running.filter(({ done, tokens }) => done < tokens);
  if (isEnding && running.length + waiting.length === 0) process.exit(0);
}, Number(STEP_MS));

const server = createServer((request, response) => {
  if (isEnding) return void response.writeHead(503).end();
  if (request.url === "/health") return void response.writeHead(200).end();
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    const { max_tokens: tokens = 16, stream: isStream = false } = JSON.parse(body);
    if (isStream) response.writeHead(200, { "content-type": "text/event-stream" });
    waiting.push({ response, tokens, isStream, done: 0, text: "" });
  });
});
setTimeout(() => server.listen(Number(MASTER_PORT), "127.0.0.1"), Number(LOAD_MS));

process.on("SIGTERM", () => {
  if (ABRUPT === "1") process.exit(1);
  isEnding = true;
});
