import { defineConfig } from "vitest/config";
import solid from "vite-plugin-solid";

// `npm run dev` talks to a running platform: CONSOLE names its console, for example https://127.0.0.1:7443.
const target = process.env["CONSOLE"] ?? "https://127.0.0.1:7443";
const proxied = { target, secure: false, ws: true, changeOrigin: true };

export default defineConfig({
  base: "/console/",
  plugins: [solid()],
  build: { target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  test: { environment: "node", include: ["src/**/*.test.ts"] },
  server: {
    proxy: {
      "/api": proxied,
      "/openapi": proxied,
      "^/console/(config|session|login|callback|refresh|logout)": proxied,
    },
  },
});
