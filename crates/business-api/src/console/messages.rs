//! The texts of the server's own pages, in the languages of the console.

use http::HeaderMap;
use http::header::{self, HeaderName};

/// A language of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Language {
    English,
    Chinese,
}

impl Language {
    /// The language that the browser prefers. The server does not see a choice that was made in the page, as only the
    /// browser stores it.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let mut best = (0.0, Self::English);
        for (range, weight) in weighted_values(headers, header::ACCEPT_LANGUAGE) {
            let language = match range.split('-').next().unwrap_or_default() {
                tag if tag.eq_ignore_ascii_case("en") => Self::English,
                tag if tag.eq_ignore_ascii_case("zh") => Self::Chinese,
                _ => continue,
            };
            if weight > best.0 {
                best = (weight, language);
            }
        }
        best.1
    }

    pub(super) const fn tag(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
        }
    }
}

/// The values of a header that lists a client's preferences, each with its weight (`q`).
pub(super) fn weighted_values(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = (&str, f32)> {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).map(|wish| {
        let (name, weight) = wish.split_once(';').unwrap_or((wish, ""));
        let weight = weight.trim().strip_prefix("q=").map_or(Some(1.0), |weight| weight.trim().parse().ok());
        (name.trim(), weight.unwrap_or(0.0))
    })
}

/// A text in each language.
#[derive(Clone, Copy, Debug)]
pub(super) struct LocalizedText {
    pub(super) en: &'static str,
    pub(super) zh: &'static str,
}

impl LocalizedText {
    pub(super) const fn in_language(self, language: Language) -> &'static str {
        match language {
            Language::English => self.en,
            Language::Chinese => self.zh,
        }
    }
}

pub(super) const CONSOLE: LocalizedText = LocalizedText { en: "Console", zh: "控制台" };
pub(super) const GO_ON: LocalizedText = LocalizedText { en: "Go on to the console", zh: "前往控制台" };
pub(super) const NOT_LOGGED_IN: LocalizedText =
    LocalizedText { en: "You are not logged in", zh: "您尚未登录" };
pub(super) const BEGIN_AGAIN: LocalizedText = LocalizedText { en: "Begin again", zh: "重新开始" };
pub(super) const NOT_BUILT: LocalizedText =
    LocalizedText { en: "The console is not in this program", zh: "此程序不包含控制台页面" };
/// This text is HTML.
pub(super) const HOW_TO_BUILD: LocalizedText = LocalizedText {
    en: "It was built without its pages. <code>cargo xtask web</code> builds them, where Node is there; the next build of \
         business-api takes them in.",
    zh: "构建时未包含页面。在装有 Node 的机器上运行 <code>cargo xtask web</code> 即可构建页面，\
         下一次构建 business-api 时会将其包含在内。",
};

pub(super) const NO_SUCH_ISSUER: LocalizedText = LocalizedText {
    en: "There is no way to log in that is called so.",
    zh: "没有这个名称的登录方式。",
};
pub(super) const NO_ORIGIN: LocalizedText =
    LocalizedText { en: "The console has no origin.", zh: "控制台没有配置来源（origin）。" };
pub(super) const NO_LOGIN: LocalizedText = LocalizedText {
    en: "This browser has begun no login, it was used already, or it took more than ten minutes.",
    zh: "此浏览器没有发起登录，或该登录已被使用，或已超过十分钟。",
};
pub(super) const ANOTHER_LOGIN: LocalizedText = LocalizedText {
    en: "This is the answer to another login than the one that this browser began last.",
    zh: "这不是此浏览器最近一次登录的应答。",
};
pub(super) const ISSUER_GONE: LocalizedText =
    LocalizedText { en: "The way to log in is there no more.", zh: "该登录方式已不存在。" };
pub(super) const ANOTHER_PROVIDER: LocalizedText = LocalizedText {
    en: "Another identity provider has answered than the one that was asked.",
    zh: "应答的身份提供方与所请求的不一致。",
};
pub(super) const NAMELESS: LocalizedText = LocalizedText {
    en: "The answer does not say which identity provider gave it, and the one that was asked always does.",
    zh: "应答没有说明来自哪个身份提供方，而所请求的身份提供方总会说明。",
};
pub(super) const NO_CODE: LocalizedText = LocalizedText {
    en: "The identity provider's answer has no code in it.",
    zh: "身份提供方的应答中没有授权码。",
};
pub(super) const NOT_ACCEPTED: LocalizedText = LocalizedText {
    en: "The identity provider let you in, but its token is not accepted here: ask whoever runs this console.",
    zh: "身份提供方已允许您登录，但此处不接受其令牌，请联系控制台的运维人员。",
};
pub(super) const REFUSED: LocalizedText = LocalizedText {
    en: "The identity provider did not accept the login.",
    zh: "身份提供方没有接受此次登录。",
};
pub(super) const UNREACHABLE: LocalizedText = LocalizedText {
    en: "The identity provider does not answer as it should.",
    zh: "身份提供方没有正常响应。",
};
pub(super) const MISCONFIGURED: LocalizedText = LocalizedText {
    en: "The console is not set up as it must be for this.",
    zh: "控制台的配置不支持此次登录。",
};
pub(super) const UNFINISHED: LocalizedText =
    LocalizedText { en: "The login came to no end.", zh: "登录未能完成。" };

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn a_browser_is_answered_in_the_language_that_it_wants_most() {
        for (wanted, language) in [
            ("zh-CN,zh;q=0.9,en;q=0.8", Language::Chinese),
            ("en-US,en;q=0.9,zh;q=0.8", Language::English),
            ("de, ZH-Hant;q=0.5, en; q=0.4", Language::Chinese),
            ("zh;q=0, en;q=0.1", Language::English),
            ("zh;q=x", Language::English),
            ("zhx, fr", Language::English),
            ("", Language::English),
        ] {
            let headers = HeaderMap::from_iter([(header::ACCEPT_LANGUAGE, HeaderValue::from_static(wanted))]);
            assert_eq!(Language::of(&headers), language, "{wanted}");
        }
        assert_eq!(Language::of(&HeaderMap::new()), Language::English);
    }
}
