//! The console as browsers meet it: login, session, and what no other site can do with it.

mod provider;
mod world;

use crate::support::{project, until};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures_util::StreamExt;
use http::{Method, StatusCode, header};
use provider::{Provider, alice};
use runtime::Clock;
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;
use world::{Answer, Browser, ORIGIN, OURS, PROJECTS, World, key};

const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

async fn session(browser: &mut Browser) -> Answer {
    browser.ask("/console/session").await
}

#[tokio::test]
async fn somebody_logs_in_and_has_the_rights_of_his_token() {
    let world = World::new().await;
    let mut browser = world.browser();
    let config = browser.get("/console/config", &[]).await.json(200);
    assert_eq!(config["issuers"], json!([{"name": "corp", "displayName": "Corporation"}]));
    assert_eq!(session(&mut browser).await.json(401)["kind"], "Status");
    assert_eq!(browser.ask(PROJECTS).await.json(401)["kind"], "Status");

    let answer = world.log_in(&mut browser, "/console/projects/web").await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert!(answer.text.contains("content=\"0;url=/console/projects/web\""), "{}", answer.text);
    assert!(!answer.text.contains("<script"));
    assert_eq!(browser.cookies.keys().collect::<Vec<_>>(), ["__Host-business-session"]);

    let shown = session(&mut browser).await.json(200);
    assert_eq!(shown["username"], "corp:alice");
    assert_eq!(shown["groups"], json!(["corp:tenant-admins", "system:authenticated"]));
    assert_eq!(shown["issuer"], "corp");
    assert!(shown["expires"].as_str() < shown["ends"].as_str(), "{shown}");

    browser.post(PROJECTS, Some(project("web", json!({"pods": "1"})))).await.json(201);
    let seen = browser.ask(PROJECTS).await.json(200);
    assert_eq!(seen["items"][0]["metadata"]["name"], "web");
    assert_eq!(browser.ask("/version").await.code, 200);
    assert_eq!(browser.ask("/openapi/v3").await.code, 200);
    let refused = browser.post("/apis/business.tkestack.io/v1/tenants", Some(json!({}))).await.json(403);
    assert!(refused["message"].as_str().unwrap().contains("corp:alice"), "{refused}");
}

#[tokio::test]
async fn a_session_sees_and_may_what_the_same_token_sees_and_may() {
    let world = World::new().await;
    world.logged_in().await.post(PROJECTS, Some(project("web", json!({"pods": "1"})))).await.json(201);
    for person in [
        alice(),
        json!({"sub": "bob", "groups": [], "tenantid": "acme"}),
        json!({"sub": "eve", "tenantid": "other"}),
    ] {
        world.provider.now_it(|conduct| conduct.person = person.clone());
        let mut browser = world.logged_in().await;
        let token = world.provider.last_token();
        let bearer = format!("Bearer {token}");
        let mut program = world.browser_at(world.api, None);
        for path in [
            PROJECTS,
            "/apis",
            "/apis/business.tkestack.io/v1/tenants",
            "/apis/business.tkestack.io/v1/projects/web",
            "/api",
        ] {
            let by_session = browser.ask(path).await;
            let by_token = program.get(path, &[("authorization", &bearer)]).await;
            assert_eq!(
                (by_session.code, &by_session.text),
                (by_token.code, &by_token.text),
                "{person} {path}"
            );
        }
        let by_session =
            browser.send(Method::DELETE, &format!("{PROJECTS}/web?dryRun=All"), &OURS, None).await;
        let by_token = program
            .send(Method::DELETE, &format!("{PROJECTS}/web?dryRun=All"), &[("authorization", &bearer)], None)
            .await;
        assert_eq!(by_session.code, by_token.code, "{person}");
    }
}

#[tokio::test]
async fn only_the_answer_to_the_login_that_this_browser_began_is_taken_and_only_once() {
    let world = World::new().await;
    let mut browser = world.browser();
    let refused = async |browser: &mut Browser, path: &str, code: u16, why: &str| {
        let answer = browser.come_back(path).await;
        assert_eq!(answer.code, code, "{why}: {}", answer.text);
        assert!(
            answer.text.contains(why) && answer.header("content-type").starts_with("text/html"),
            "{}",
            answer.text
        );
        assert_eq!(session(browser).await.code, 401, "{why}");
    };

    let back = world.way_back(&mut browser, "").await;
    refused(&mut world.browser(), &back, 400, "has begun no login").await;
    let login = browser.cookies.clone();
    refused(&mut browser, &back.replace("state=", "state=x"), 400, "another login").await;
    assert!(browser.cookies.is_empty(), "a login is used once, whatever came of it");
    refused(&mut browser, &back, 400, "it was used already").await;

    browser.cookies.clone_from(&login);
    refused(&mut browser, "/console/callback?state=&code=x", 400, "another login").await;
    for (more, code, why) in [
        ("&iss=https://evil.test", 400, "Another identity provider"),
        ("&error=access_denied&error_description=%3Cb%3Eno", 403, "access_denied: &lt;b&gt;no"),
    ] {
        browser.cookies.clone_from(&login);
        refused(&mut browser, &format!("{back}{more}"), code, why).await;
    }
    browser.cookies.clone_from(&login);
    let (_, state) = back.split_once("&state=").unwrap();
    refused(&mut browser, &format!("/console/callback?state={state}"), 400, "no code").await;

    browser.cookies.clone_from(&login);
    assert_eq!(browser.come_back(&back).await.code, 200);
    let mut thief = world.browser();
    thief.cookies.clone_from(&login);
    refused(&mut thief, &back, 403, "invalid_grant").await;
    let mut sealed_for_something_else = world.browser();
    let session = browser.cookies["__Host-business-session"].trim_start_matches("1.").to_owned();
    sealed_for_something_else.cookies.insert("__Host-business-login".to_owned(), session);
    refused(&mut sealed_for_something_else, &back, 400, "has begun no login").await;
}

#[tokio::test]
async fn a_code_of_one_provider_is_never_taken_to_another() {
    let other = Provider::start().await;
    let world = World::beside(&other).await;
    let mut browser = world.browser();
    for (issuer, provider) in [("corp", &world.provider), ("other", &other)] {
        let back = provider.authorize(&browser.sent_to(issuer, "").await);
        let back = back.strip_prefix(ORIGIN).unwrap();
        assert!(back.starts_with(&format!("/console/callback/{issuer}?code=")), "{back}");
        let login = browser.cookies.clone();
        for path in ["/console/callback?", "/console/callback/nobody?", "/console/callback/corp/other?"] {
            browser.cookies.clone_from(&login);
            let answer =
                browser.come_back(&back.replace(&format!("/console/callback/{issuer}?"), path)).await;
            assert_eq!(answer.code, 400, "{path}");
            assert!(answer.text.contains("Another identity provider"), "{}", answer.text);
        }
        browser.cookies.clone_from(&login);
        let answer = browser.come_back(back).await;
        assert_eq!(answer.code, 200, "{}", answer.text);
        assert_eq!(session(&mut browser).await.json(200)["username"], format!("{issuer}:alice"));
    }

    // The other one passes its login on: corp gives a code for corp's own way back alone.
    let mut victim = world.browser();
    let asked = victim.sent_to("other", "").await.replace(&other.url, &world.provider.url);
    let back = world.provider.authorize(&asked.replace("callback%2Fother", "callback%2Fcorp"));
    let answer = victim.come_back(back.strip_prefix(ORIGIN).unwrap()).await;
    assert_eq!(answer.code, 400, "{}", answer.text);
    assert!(answer.text.contains("Another identity provider"), "{}", answer.text);
    assert_eq!(session(&mut victim).await.code, 401);
}

#[tokio::test]
async fn one_provider_alone_keeps_the_short_way_back_and_may_have_its_own_one_already() {
    let world = World::new().await;
    let mut browser = world.browser();
    let back = world.way_back(&mut browser, "").await;
    assert!(back.starts_with("/console/callback?code="), "{back}");
    let login = browser.cookies.clone();
    let at = |path: &str| back.replace("/console/callback?", path);
    assert_eq!(browser.come_back(&at("/console/callback/other?")).await.code, 400);
    browser.cookies.clone_from(&login);
    assert_eq!(browser.come_back(&at("/console/callback/corp?")).await.code, 200);
    assert_eq!(world.log_in(&mut browser, "").await.code, 200);
}

#[tokio::test]
async fn a_provider_that_promises_to_name_itself_does_so() {
    let world = World::new().await;
    world.provider.now_it(|conduct| conduct.names_itself = true);
    let mut browser = world.browser();
    let back = world.way_back(&mut browser, "").await;
    let login = browser.cookies.clone();
    for nameless in [back.clone(), back.replace("?code=", "?error=access_denied&x=")] {
        browser.cookies.clone_from(&login);
        let answer = browser.come_back(&nameless).await;
        assert_eq!(answer.code, 400, "{nameless}: {}", answer.text);
        assert!(answer.text.contains("does not say which identity provider"), "{}", answer.text);
    }
    browser.cookies.clone_from(&login);
    let answer = browser.come_back(&format!("{back}&iss={}", world.provider.url)).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
}

#[tokio::test]
async fn a_login_may_take_ten_minutes_and_no_longer() {
    let second = 1_000_000;
    let clock = Clock::fixed(Clock::system().unix_micros());
    let world = World::at(&clock).await;
    world.provider.now_it(|conduct| conduct.lifetime = 3600);
    for (seconds, code) in [(599, 200), (600, 400), (601, 400)] {
        let mut browser = world.browser();
        let back = world.way_back(&mut browser, "").await;
        clock.advance(seconds * second);
        let answer = browser.come_back(&back).await;
        clock.advance(-seconds * second);
        assert_eq!(answer.code, code, "after {seconds} s: {}", answer.text);
        assert_eq!(answer.text.contains("more than ten minutes"), code == 400, "{}", answer.text);
        assert_eq!(session(&mut browser).await.code, if code == 200 { 200 } else { 401 });
        assert!(!browser.cookies.contains_key("__Host-business-login"), "a login is used once");
    }
}

#[tokio::test]
async fn a_token_that_is_not_for_this_login_or_not_good_here_is_no_session() {
    let world = World::new().await;
    let mut browser = world.browser();
    world.provider.now_it(|conduct| conduct.nonce = Some("another".to_owned()));
    let answer = world.log_in(&mut browser, "").await;
    assert_eq!(answer.code, 403);
    assert!(answer.text.contains("ID token is not good") && answer.text.contains("nonce"), "{}", answer.text);
    // The API does not take it: it names a tenant that is none.
    world.provider.now_it(|conduct| {
        conduct.nonce = None;
        conduct.person = json!({"sub": "alice", "tenantid": ["a", "b"]});
    });
    let answer = world.log_in(&mut browser, "").await;
    assert_eq!(answer.code, 403);
    assert!(answer.text.contains("not accepted here"), "{}", answer.text);
    world.provider.now_it(|conduct| conduct.is_down = true);
    let answer = world.log_in(&mut browser, "").await;
    assert_eq!(answer.code, 502);
    assert!(answer.text.contains("does not answer as it should"), "{}", answer.text);
    let answer = browser.get("/console/login?issuer=nobody", &[]).await;
    assert_eq!(answer.code, 404);
    assert!(browser.cookies.is_empty());
}

#[tokio::test]
async fn pages_for_people_are_in_their_language_and_lead_back_to_where_they_were_going() {
    let world = World::new().await;
    let mut browser = world.browser();
    let english = [("accept-language", "en-GB, en;q=0.9")];
    let chinese = [("accept-language", "zh-CN,zh;q=0.9,en;q=0.8")];
    for (headers, tag, why, again) in
        [(&english, "en", "called so", "Begin again"), (&chinese, "zh", "没有这个名称的登录方式", "重新开始")]
    {
        let path = "/console/login?issuer=%3Cnobody%3E&return=/console/projects/web";
        let answer = browser.get(path, headers).await;
        assert_eq!(answer.code, 404, "{}", answer.text);
        for part in [
            format!("<html lang=\"{tag}\">"),
            why.to_owned(),
            "lang=\"en\">&lt;nobody&gt;</p>".to_owned(),
            format!("<a href=\"/console/projects/web\">{again}</a>"),
            "<link rel=\"stylesheet\" href=\"/console/server.css\">".to_owned(),
        ] {
            assert!(answer.text.contains(&part), "{part}: {}", answer.text);
        }
        assert!(!answer.text.contains("<script") && !answer.text.contains("style="), "{}", answer.text);
    }
    let style = browser.get("/console/server.css", &[]).await;
    assert_eq!((style.code, style.header("content-type")), (200, "text/css; charset=utf-8"));

    let back = world.way_back(&mut browser, "/console/projects/web").await;
    let login = browser.cookies.clone();
    for (path, code) in
        [(back.replace("state=", "state=x"), 400), (format!("{back}&error=access_denied"), 403)]
    {
        browser.cookies.clone_from(&login);
        let answer = browser.get(&path, &chinese).await;
        assert_eq!(answer.code, code, "{}", answer.text);
        assert!(answer.text.contains("<a href=\"/console/projects/web\">重新开始</a>"), "{}", answer.text);
    }
    let answer = browser.get(&back, &chinese).await;
    assert!(answer.text.contains("此浏览器没有发起登录"), "{}", answer.text);
    assert!(answer.text.contains("<a href=\"/console/\">"), "{}", answer.text);
    browser.cookies.clone_from(&login);
    let answer = browser.get(&back, &chinese).await;
    assert_eq!(answer.code, 200, "{}", answer.text);
    assert!(answer.text.contains("<html lang=\"zh\">"), "{}", answer.text);

    std::fs::remove_file(world.directory.join("page/index.html")).unwrap();
    for (headers, title) in [(&english, "not in this program"), (&chinese, "不包含控制台页面")] {
        let answer = browser.get("/console/", headers).await;
        assert_eq!(answer.code, 404, "{}", answer.text);
        assert!(answer.text.contains(title), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_session_is_refreshed_with_a_refresh_token_that_is_good_once_until_its_absolute_end() {
    let world = World::new().await;
    let mut browser = world.logged_in().await;
    let before = session(&mut browser).await.json(200);
    let mut other_tab = browser.clone();
    world.provider.now_it(|conduct| conduct.lifetime = 1200);
    let after = browser.post("/console/refresh", None).await.json(200);
    assert!(before["expires"].as_str() < after["expires"].as_str(), "{before} {after}");
    assert_eq!((&before["ends"], &before["username"]), (&after["ends"], &after["username"]));
    assert_eq!(session(&mut browser).await.json(200), after);
    browser.post("/console/refresh", None).await.json(200);

    // Without the lock that tabs share.
    assert_eq!(other_tab.post("/console/refresh", None).await.code, 401);
    assert!(!other_tab.cookies.is_empty(), "what another tab may have set stays");
    assert_eq!(world.browser().post("/console/refresh", None).await.code, 401);
    world.provider.now_it(|conduct| conduct.is_down = true);
    assert_eq!(browser.post("/console/refresh", None).await.json(503)["kind"], "Status");
    world.provider.now_it(|conduct| conduct.is_down = false);
    for code in [
        StatusCode::TOO_MANY_REQUESTS,
        StatusCode::BAD_GATEWAY,
        StatusCode::SERVICE_UNAVAILABLE,
        StatusCode::GATEWAY_TIMEOUT,
    ] {
        world.provider.now_it(|conduct| conduct.not_now = Some(code));
        let answer = browser.post("/console/refresh", None).await;
        assert_eq!(answer.code, 503, "{code}: {}", answer.text);
    }
    world.provider.now_it(|conduct| conduct.not_now = None);
    browser.post("/console/refresh", None).await.json(200);
    world.provider.now_it(|conduct| {
        conduct.person["sub"] = json!("mallory");
    });
    assert_eq!(browser.post("/console/refresh", None).await.code, 401);
}

#[tokio::test]
async fn a_session_ends_with_its_token_or_at_its_absolute_end() {
    let world = World::with(&["--console-session-lifetime=10s"]).await;
    let mut browser = world.logged_in().await;
    assert_eq!(session(&mut browser).await.code, 200);
    until("the absolute end", async || session(&mut browser).await.code == 401).await;
    assert_eq!(browser.post("/console/refresh", None).await.code, 401);
    assert_eq!(browser.ask(PROJECTS).await.code, 401);

    let world = World::new().await;
    world.provider.now_it(|conduct| conduct.lifetime = 5);
    let mut browser = world.logged_in().await;
    until("the token's end", async || session(&mut browser).await.code == 401).await;
    assert_eq!(browser.get("/console/", &[]).await.code, 200, "a page needs no session");
    world.provider.now_it(|conduct| conduct.lifetime = 600);
    assert_eq!(browser.post("/console/refresh", None).await.code, 200);
    assert_eq!(session(&mut browser).await.code, 200);

    world.provider.now_it(|conduct| conduct.refresh = Some(String::new()));
    let told = session(&mut world.logged_in().await).await.json(200);
    assert_eq!(told["ends"], told["expires"], "no token follows: {told}");
}

#[tokio::test]
async fn a_logout_ends_the_session_here_and_at_the_provider() {
    let world = World::new().await;
    let mut browser = world.logged_in().await;
    let thief = browser.clone();
    let answer = browser.post("/console/logout", None).await.json(200);
    let location = answer["location"].as_str().unwrap();
    assert!(location.starts_with(&format!("{}/end?id_token_hint=ey", world.provider.url)), "{location}");
    assert!(
        location.contains("post_logout_redirect_uri=https%3A%2F%2Fconsole.test%3A8443%2Fconsole%2F"),
        "{location}"
    );
    assert!(browser.cookies.is_empty());
    assert_eq!(world.provider.conduct.lock().unwrap().revoked.len(), 1);
    assert_eq!(thief.clone().post("/console/refresh", None).await.code, 401);

    assert_eq!(browser.post("/console/logout", None).await.json(200)["location"], "/console/");
    let groups: Vec<String> = (0..100).map(|n| format!("a-group-with-a-long-name-{n}")).collect();
    world.provider.now_it(|conduct| conduct.person["groups"] = json!(groups));
    let mut browser = world.logged_in().await;
    let answer = browser.post("/console/logout", None).await.json(200);
    let location = answer["location"].as_str().unwrap();
    let no_hint = format!("{}/end?client_id=business-console&post_logout_redirect_uri=", world.provider.url);
    assert!(location.starts_with(&no_hint), "a long token goes into no URL: {location}");
    world.provider.now_it(|conduct| conduct.person = alice());
    let mut browser = world.logged_in().await;
    world.provider.now_it(|conduct| conduct.is_down = true);
    assert_eq!(browser.post("/console/logout", None).await.code, 200);
    assert!(browser.cookies.is_empty());
}

#[tokio::test]
async fn the_first_key_seals_and_all_of_them_open_as_the_file_says_now() {
    let world = World::new().await;
    let mut before = world.logged_in().await;
    let keys = |keys: &[u8]| {
        let lines: Vec<String> = keys.iter().map(|&byte| key(byte)).collect();
        std::fs::write(world.directory.join("keys"), lines.join("\n")).unwrap();
    };
    keys(&[2]);
    until("the first key is gone", async || session(&mut before).await.code == 401).await;
    assert_eq!(before.post("/console/refresh", None).await.code, 401);
    keys(&[2, 1]);
    until("the first key opens again", async || session(&mut before).await.code == 200).await;
    let mut after = world.logged_in().await;
    keys(&[2]);
    until("the first key is gone again", async || session(&mut before).await.code == 401).await;
    assert_eq!(session(&mut after).await.code, 200, "the second one has sealed");
}

#[tokio::test]
async fn a_session_may_take_several_cookies_but_not_any_number() {
    let world = World::new().await;
    let groups: Vec<String> = (0..300).map(|n| format!("a-group-with-a-long-name-{n}")).collect();
    world.provider.now_it(|conduct| conduct.person["groups"] = json!(groups));
    let mut browser = world.logged_in().await;
    assert!(browser.cookies.len() > 2, "{}", browser.cookies.len());
    assert_eq!(session(&mut browser).await.json(200)["groups"].as_array().unwrap().len(), 301);
    world.provider.now_it(|conduct| conduct.person = alice());
    assert_eq!(browser.post("/console/refresh", None).await.code, 200);
    assert_eq!(browser.cookies.len(), 1, "pieces of the longer one are removed");

    world.provider.now_it(|conduct| conduct.refresh = Some("r".repeat(30_000)));
    let answer = world.log_in(&mut world.browser(), "").await;
    assert_eq!(answer.code, 400);
    assert!(answer.text.contains("30400 fit into a browser"), "{}", answer.text);
}

#[tokio::test]
async fn no_request_that_another_site_can_cause_uses_the_session() {
    let world = World::new().await;
    let mut browser = world.logged_in().await;
    let ours = ("x-business-console", "1");
    for (headers, get, post) in [
        (vec![("origin", ORIGIN), ours], 200, 201),
        (vec![("origin", "https://other.test"), ours], 200, 201),
        (vec![("origin", ORIGIN)], 200, 403),
        (vec![("origin", "https://evil.test"), ours], 403, 403),
        (vec![("origin", "https://console.test"), ours], 403, 403),
        (vec![("origin", "null"), ours], 403, 403),
        (vec![("sec-fetch-site", "same-origin"), ours], 200, 403),
        (vec![("sec-fetch-site", "same-site"), ours], 403, 403),
        (vec![("sec-fetch-site", "cross-site"), ours], 403, 403),
        (vec![("sec-fetch-site", "none")], 403, 403),
        (vec![ours], 200, 403),
        (vec![("x-business-console", "2")], 403, 403),
        (vec![], 403, 403),
        (vec![("origin", ORIGIN), ours, ("authorization", "Bearer x")], 400, 400),
    ] {
        for path in [PROJECTS, "/console/session", "/openapi/v2"] {
            assert_eq!(browser.get(path, &headers).await.code, get, "{headers:?} {path}");
        }
        let body = Some(project("web", json!({"pods": "1"})));
        let path = format!("{PROJECTS}?dryRun=All");
        assert_eq!(browser.send(Method::POST, &path, &headers, body).await.code, post, "{headers:?}");
        if post != 201 {
            for path in ["/console/refresh", "/console/logout", "/console/logou%74", "/console/%72efresh/"] {
                let answer = browser.send(Method::POST, path, &headers, None).await;
                assert_eq!(answer.code, post, "{headers:?} {path}");
                assert!(!answer.headers.contains_key("set-cookie"), "{headers:?} {path}");
            }
        }
    }
    // Without a session there is nothing to use; credentials of other sorts are not taken here at all.
    let bearer = format!("Bearer {}", world.provider.last_token());
    for headers in [vec![("authorization", bearer.as_str())], vec![("authorization", &bearer), OURS[0]]] {
        assert!(matches!(world.browser().get(PROJECTS, &headers).await.code, 401 | 403), "{headers:?}");
    }
    assert_eq!(world.browser().get("/api", &[("x-remote-user", "root"), ours]).await.code, 401);
}

#[tokio::test]
async fn a_watch_is_told_over_a_socket_of_our_own_pages_until_the_token_ends() {
    let world = World::new().await;
    let mut browser = world.logged_in().await;
    let token = format!("{TOKEN_PROTOCOL}{}", BASE64_URL_SAFE_NO_PAD.encode("x"));
    for (headers, code) in [
        (vec![], 403),
        (OURS[1..].to_vec(), 403),
        (vec![("sec-fetch-site", "same-origin")], 403),
        (vec![("origin", "https://evil.test")], 403),
        (vec![("origin", "null")], 403),
        (vec![("origin", ORIGIN), ("authorization", "Bearer x")], 400),
        (vec![("origin", ORIGIN), ("sec-websocket-protocol", &token)], 400),
    ] {
        assert_eq!(browser.watch(&headers).await.err(), Some(code), "{headers:?}");
    }
    assert_eq!(world.browser().watch(&OURS[..1]).await.err(), Some(401));
    world.provider.now_it(|conduct| conduct.lifetime = 15);
    let mut browser = world.logged_in().await;
    let mut socket = browser.watch(&OURS[..1]).await.unwrap();
    browser.post(PROJECTS, Some(project("web", json!({"pods": "1"})))).await.json(201);
    let Some(Ok(Message::Text(event))) = socket.next().await else { panic!("no event") };
    let event: Value = serde_json::from_str(&event).unwrap();
    assert_eq!((&event["type"], &event["object"]["metadata"]["name"]), (&json!("ADDED"), &json!("web")));
    let ended = async {
        while let Some(Ok(message)) = socket.next().await {
            if let Message::Close(frame) = message {
                return frame.map(|frame| u16::from(frame.code));
            }
        }
        None
    };
    let ended = tokio::time::timeout(std::time::Duration::from_secs(30), ended).await.unwrap();
    assert_eq!(ended, Some(1000));
    until("the token has ended", async || browser.watch(&OURS[..1]).await.err() == Some(401)).await;
}

#[tokio::test]
async fn files_are_cached_by_their_hash_and_every_answer_has_the_headers() {
    let world = World::new().await;
    let mut browser = world.browser();
    for page in ["/console", "/console/", "/console/projects/web?tab=1", "/console/index.html"] {
        let answer = browser.get(page, &[]).await;
        assert_eq!(
            (answer.code, answer.text.as_str()),
            (200, "<!doctype html><title>Console</title>"),
            "{page}"
        );
        assert_eq!(answer.header("cache-control"), "no-cache", "{page}");
        assert_eq!(answer.header("content-type"), "text/html; charset=utf-8");
    }
    let asset = "/console/assets/app-5a1c.js";
    for (accepts, encoding, begins) in
        [("br, gzip", "br", "as brotli"), ("gzip", "gzip", "as gzip"), ("", "", "console.log")]
    {
        let answer = browser.get(asset, &[("accept-encoding", accepts)]).await;
        assert!(answer.text.starts_with(begins), "{}", answer.text);
        assert_eq!(answer.header("content-encoding"), encoding);
        assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
        assert_eq!(
            (answer.header("content-type"), answer.header("vary")),
            ("text/javascript; charset=utf-8", "Accept-Encoding")
        );
    }
    assert_eq!(browser.get("/console/assets/gone-1.js", &[]).await.code, 404);
    assert_eq!(browser.get("/console/../keys", &[]).await.text, "<!doctype html><title>Console</title>");
    assert_eq!(browser.get("/", &[]).await.header("location"), "/console/");
    assert_eq!(browser.send(Method::POST, "/console/", &OURS, None).await.code, 405);

    let policy = format!(
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src 'self' \
         wss://{} wss://other.test; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ORIGIN.trim_start_matches("https://")
    );
    let mut inside = world.logged_in().await;
    let answers = [
        browser.get("/console/", &[]).await,
        browser.get(asset, &[]).await,
        browser.get("/nowhere", &[]).await,
        browser.get("/metrics", &[]).await,
        browser.get(PROJECTS, &[]).await,
        browser.get("/console/callback", &[]).await,
        inside.ask(PROJECTS).await,
        inside.ask("/console/session").await,
    ];
    for answer in answers {
        for (name, value) in [
            ("content-security-policy", policy.as_str()),
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("strict-transport-security", "max-age=31536000"),
        ] {
            assert_eq!(answer.header(name), value, "{}", answer.text);
        }
        assert!(answer.header("permissions-policy").contains("camera=()"));
        assert!(answer.headers.get(header::ACCESS_CONTROL_ALLOW_ORIGIN).is_none());
    }
    for path in [PROJECTS, "/nowhere", "/console/session"] {
        assert_eq!(inside.ask(path).await.header("cache-control"), "no-store", "{path}");
    }
    assert_eq!(browser.get("/metrics", &[]).await.code, 404);
    assert_eq!(browser.get("/registry/token", &[]).await.code, 404);
}

#[tokio::test]
async fn nothing_of_it_is_at_the_apis_own_socket_or_anywhere_when_it_is_not_wanted() {
    let world = World::new().await;
    let master = world.authority.caller("root", &["system:masters"]);
    let mut at_api = world.browser_at(world.api, Some(&master));
    let cookies = world.logged_in().await.cookies;
    for path in ["/console/", "/console/config", "/console/login?issuer=corp", "/console/session"] {
        assert_eq!(at_api.get(path, &[]).await.code, 404, "{path}");
    }
    let mut by_cookie = world.browser_at(world.api, None);
    by_cookie.cookies = cookies;
    assert_eq!(by_cookie.get(PROJECTS, &OURS).await.code, 403, "nobody is known there by a cookie");

    let without = World::with(&["--console=false"]).await;
    assert!(without.console.is_none());
    let master = without.authority.caller("root", &["system:masters"]);
    assert_eq!(without.browser_at(without.api, Some(&master)).get("/console/", &[]).await.code, 404);
}

#[tokio::test]
async fn a_browser_is_not_asked_for_a_certificate_and_one_that_comes_with_one_is_nobody() {
    let world = World::new().await;
    let master = world.authority.caller("root", &["system:masters"]);
    let mut browser = world.browser_at(world.console.unwrap(), Some(&master));
    assert_eq!(browser.ask(PROJECTS).await.code, 401);
}
