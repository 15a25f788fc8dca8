// SPDX-License-Identifier: Apache-2.0
// bench/rpc-worker.mjs - a worker in plain JavaScript, as small as one can be: for bench-rpc.
import { createInterface } from "node:readline";

const large = "x".repeat(16 * 1024 * 1024);
const answers = {
  initialize: () => ({ ok: true, supportedMethods: ["health", "environmentExecute"] }),
  health: () => ({ status: "ok" }),
  environmentExecute: () => ({ exitCode: 0, timedOut: false, stdout: large, stderr: "" }),
  shutdown: () => null,
};
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method } = JSON.parse(line);
  process.stdout.write(JSON.stringify({ jsonrpc: "2.0", id, result: answers[method]?.() ?? null }) + "\n");
  if (method === "shutdown") setImmediate(() => process.exit(0));
}).on("close", () => process.exit(0));
