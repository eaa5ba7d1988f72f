/** `npm run stand-in`: the page with simulated answers. PORT, PROJECTS, NAMESPACES in each of them, and DIST, the built page. */

import { StandIn } from "./server.mjs";

const { PORT = "7444", PROJECTS = "0", NAMESPACES = "0", DIST = new URL("../../../web/dist", import.meta.url).pathname } = process.env;
console.log(`${await new StandIn({ dist: DIST, projects: Number(PROJECTS), namespaces: Number(NAMESPACES) }).start(Number(PORT))}/console/`);
