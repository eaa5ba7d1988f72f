use super::*;
use crate::fixtures::amounts;
use crate::member::marks::Marks;
use tokio::time::advance;

/// A quota as its cluster shows it one version after the other.
struct Shown {
    histories: QuotaHistories,
    quota: ClusterQuota,
    version: u64,
}

impl Shown {
    /// Admission does not count with it yet.
    fn new() -> Self {
        let marks = Marks { seal: Some("1".to_owned()), ..Marks::default() };
        let quota = ClusterQuota { uid: "q".to_owned(), marks, ..ClusterQuota::default() };
        let mut shown = Self { histories: QuotaHistories::default(), quota, version: 0 };
        shown.tell(false);
        shown
    }

    /// Whether that is news.
    fn tell(&mut self, in_list: bool) -> bool {
        self.version += 1;
        self.quota.resource_version = self.version.to_string();
        self.histories.observe("web", Arc::new(self.quota.clone()), in_list, RECOUNT)
    }

    fn hard(&mut self, hard: &str, used: &str) {
        self.quota.status_hard = amounts(&[("pods", hard)]);
        self.used(used);
    }

    fn used(&mut self, used: &str) {
        self.quota.status_used = amounts(&[("pods", used)]);
        self.tell(false);
    }

    /// Versions are missed, after which it is listed.
    fn listed(&mut self, hard: &str, used: &str) {
        self.quota.status_hard = amounts(&[("pods", hard)]);
        self.quota.status_used = amounts(&[("pods", used)]);
        self.tell(true);
    }

    fn sealed(&mut self, seal: &str) {
        self.quota.marks.seal = Some(seal.to_owned());
    }

    fn counted(&self) -> UsageRecount {
        self.histories.recount_of("web", &self.quota, RECOUNT)
    }

    /// What was in use at the most, as far as it is known; `None` when all was counted anew.
    fn most(&self) -> Option<ResourceList> {
        match self.counted() {
            UsageRecount::Complete => None,
            UsageRecount::Pending { most, .. } => Some(most),
        }
    }
}

fn pods(count: &str) -> ResourceList {
    amounts(&[("pods", count)])
}

/// Nothing is known.
fn unknown() -> ResourceList {
    amounts(&[])
}

async fn minutes(count: u64) {
    advance(Duration::from_mins(count)).await;
}

#[tokio::test(start_paused = true)]
async fn what_was_in_use_before_the_limits_changed_counts_for_a_while() {
    let mut shown = Shown::new();
    shown.hard("9", "0");
    assert_eq!(shown.most(), Some(unknown()), "it was not limited before");
    minutes(6).await;
    assert_eq!(shown.counted(), UsageRecount::Complete);
    shown.used("8");
    shown.sealed("2");
    shown.tell(false);
    shown.hard("2", "3");
    assert_eq!(shown.most(), Some(pods("8")));
    minutes(4).await;
    shown.used("7");
    let left = Duration::from_mins(2);
    assert_eq!(shown.counted(), UsageRecount::Pending { most: amounts(&[("pods", "8")]), left });
    minutes(2).await;
    assert_eq!(shown.counted(), UsageRecount::Complete);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_count_may_have_missed_is_added() {
    let mut shown = Shown::new();
    shown.hard("10", "0");
    shown.used("5");
    shown.hard("9", "0");
    shown.used("4");
    shown.hard("1", "0");
    assert_eq!(
        shown.most(),
        Some(pods("13")),
        "those 5 and these 4 may all be missing, and the 4 count twice"
    );
    // Somebody goes, and all is counted for that.
    let mut shown = Shown::new();
    shown.hard("10", "0");
    minutes(6).await;
    shown.used("6");
    shown.used("2");
    shown.hard("1", "0");
    assert_eq!(shown.most(), Some(pods("8")));
    // What was let in long ago is missing nowhere.
    let mut shown = Shown::new();
    shown.hard("10", "0");
    shown.used("6");
    minutes(6).await;
    shown.used("2");
    shown.hard("1", "0");
    assert_eq!(shown.most(), Some(pods("2")));
}

#[tokio::test(start_paused = true)]
async fn of_what_was_not_seen_nothing_is_known() {
    let mut shown = Shown::new();
    shown.histories = QuotaHistories::default();
    shown.listed("9", "3");
    assert_eq!(shown.most(), Some(unknown()));
    minutes(5).await;
    shown.hard("2", "3");
    assert_eq!(shown.most(), Some(unknown()), "how it was counted before is not known");
    minutes(6).await;
    shown.hard("1", "1");
    assert_eq!(shown.most(), Some(pods("3")));
    shown.quota.uid = "another".to_owned();
    assert_eq!(shown.most(), Some(unknown()), "of that one nothing was told");
    shown.used("0");
    assert_eq!(shown.most(), Some(unknown()));
}

#[tokio::test(start_paused = true)]
async fn a_list_changes_nothing_where_nothing_was_written_meanwhile() {
    let mut shown = Shown::new();
    shown.hard("9", "8");
    minutes(6).await;
    shown.hard("2", "3");
    shown.listed("2", "4");
    assert_eq!(shown.most(), Some(pods("8")), "only use is new");
    minutes(6).await;
    assert_eq!(shown.counted(), UsageRecount::Complete);
    shown.listed("2", "1");
    assert_eq!(shown.counted(), UsageRecount::Complete);
    shown.hard("1", "1");
    assert_eq!(shown.most(), Some(unknown()), "use may have been counted while nobody looked");
    minutes(6).await;
    shown.sealed("2");
    shown.listed("1", "1");
    assert_eq!(shown.most(), Some(unknown()), "other limits may have been there meanwhile");
}

#[tokio::test(start_paused = true)]
async fn what_the_watch_has_not_told_yet_is_not_known() {
    let mut shown = Shown::new();
    shown.hard("9", "0");
    minutes(6).await;
    assert_eq!(shown.counted(), UsageRecount::Complete);
    shown.sealed("2");
    assert_eq!(shown.most(), Some(unknown()));
    shown.tell(false);
    assert_eq!(shown.counted(), UsageRecount::Complete);
    // An event that was told before is none.
    let late = ClusterQuota { resource_version: "1".to_owned(), ..shown.quota.clone() };
    shown.histories.observe("web", Arc::new(late), false, RECOUNT);
    assert_eq!(shown.counted(), UsageRecount::Complete);
}

#[tokio::test(start_paused = true)]
async fn what_the_watch_tells_of_a_write_is_news_to_who_waits_for_it() {
    let mut shown = Shown::new();
    shown.hard("9", "0");
    minutes(6).await;
    shown.sealed("2");
    assert!(!shown.tell(false), "nobody waits");
    shown.sealed("3");
    let untold = UsageRecount::Pending { most: unknown(), left: RECOUNT };
    assert_eq!(shown.histories.recount_awaited("web", &shown.quota, RECOUNT), untold);
    let other = ClusterQuota { resource_version: "90".to_owned(), ..shown.quota.clone() };
    shown.sealed("2");
    assert!(!shown.tell(false), "it is a version before that");
    shown.version = 89;
    shown.quota = other;
    assert!(shown.tell(false));
    assert_eq!(shown.histories.recount_awaited("web", &shown.quota, RECOUNT), UsageRecount::Complete);
    shown.sealed("4");
    assert!(!shown.tell(false), "who has asked before has had his answer");
}

#[tokio::test(start_paused = true)]
async fn it_weighs_nothing_when_the_quotas_are_gone() {
    let mut shown = Shown::new();
    shown.hard("9", "0");
    shown.used("3");
    assert!(shown.histories.weight() > 0);
    shown.histories.retain(|namespace| namespace == "web");
    assert!(shown.histories.weight() > 0);
    shown.histories.forget("web");
    assert_eq!(shown.histories.weight(), 0);
    shown.tell(false);
    shown.histories.retain(|_| false);
    assert_eq!(shown.histories.weight(), 0);
}
