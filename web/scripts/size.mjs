// What a browser loads before anything is shown, compressed, must stay small.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync } from "node:zlib";

const LIMIT = 250_000;
const dist = new URL("../dist/", import.meta.url).pathname;
const page = readFileSync(join(dist, "index.html"), "utf8");
const first = [...page.matchAll(/(?:src|href)="\/console\/([^"]+)"/g)].map((match) => match[1]);
const sizes = ["index.html", ...first].map((file) => [file, brotliCompressSync(readFileSync(join(dist, file))).length]);
const total = sizes.reduce((sum, [, size]) => sum + size, 0);
for (const [file, size] of sizes) console.log(`${String(size).padStart(8)}  ${file}`);
console.log(`${String(total).padStart(8)}  first load, of at most ${LIMIT}`);
if (total > LIMIT) process.exit(1);
