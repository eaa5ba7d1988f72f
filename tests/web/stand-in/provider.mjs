/** The login page of a provider that believes every password; its form is that of tests/oidc. */

export function providerPage(request, response, url, people) {
  const back = url.searchParams.get("return") ?? "/console/";
  if (request.method === "GET") return page(response, back, "");
  let body = "";
  request.on("data", (part) => (body += part));
  request.on("end", () => {
    const form = new URLSearchParams(body);
    const name = form.get("username") ?? "";
    if (!people[name]) return page(response, back, "wrong name or password");
    const home = back.startsWith("/console/") ? back : "/console/";
    response.writeHead(302, { Location: home, "Set-Cookie": `stand-in=${name}; Path=/; HttpOnly; SameSite=Lax` });
    return response.end();
  });
}

function page(response, back, error) {
  const action = `/stand-in/provider?return=${encodeURIComponent(back)}`;
  response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
  response.end(`<!doctype html><html lang="en"><title>Log in</title><form method="post" action="${action}"><p>${error}</p>
<label>Name <input name="username"></label> <label>Password <input name="password" type="password"></label>
<button>Log in</button></form></html>`);
}
