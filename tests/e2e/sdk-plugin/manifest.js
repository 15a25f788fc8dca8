// SPDX-License-Identifier: Apache-2.0
// tests/e2e/sdk-plugin/manifest.js - what the plugin says of itself. It is a script, and takes its
// version from the file next to it: whoever reads it has to run it.
import { readFileSync } from "node:fs";

const { version } = JSON.parse(readFileSync(new URL("./package.json", import.meta.url), "utf8"));

export default {
  id: "berth-tests.directories",
  apiVersion: 1,
  version,
  displayName: "Directories",
  description: "Places that are directories, for the tests of berth.",
  author: "berth",
  categories: ["automation"],
  capabilities: ["environment.drivers.register"],
  entrypoints: { worker: "./worker.js" },
  environmentDrivers: [
    {
      driverKey: "directories",
      kind: "sandbox_provider",
      displayName: "Directories",
      configSchema: {
        type: "object",
        properties: {
          apiKey: { type: "string", format: "secret-ref", title: "API key" },
          timeoutMs: { type: "number", default: 60000 },
          reuseLease: { type: "boolean", default: false },
          trouble: { type: "string", description: "Where it fails, and says more than it should." },
        },
        required: ["apiKey"],
      },
    },
  ],
};
