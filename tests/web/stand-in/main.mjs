/** `npm run stand-in`: the page with simulated answers. PORT, PROJECTS, and DIST, the built page. */

import { StandIn } from "./server.mjs";

const { PORT = "7444", PROJECTS = "0", DIST = new URL("../../../web/dist", import.meta.url).pathname } = process.env;
console.log(`${await new StandIn({ dist: DIST, projects: Number(PROJECTS) }).start(Number(PORT))}/console/`);
