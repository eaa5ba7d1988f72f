//! Who wrote to a cluster from when to when. Of two writers the second must not begin before the first has ended, and
//! whoever begins must have taken a lease since the one before him wrote last.

/// A write to a member cluster, as its audit log has it. Times are in microseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MemberWrite {
    pub(crate) writer: String,
    /// Verb and object.
    pub(crate) what: String,
    /// When the request had arrived.
    pub(crate) begun: i64,
    /// When it was answered.
    pub(crate) ended: i64,
    pub(crate) code: u16,
    /// It has changed the cluster, whatever was answered.
    pub(crate) made: bool,
}

/// A lease that has come to somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Takeover {
    pub(crate) lease: String,
    pub(crate) writer: String,
    pub(crate) at: i64,
}

/// Writes of one writer without another one's between them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tenure<'a> {
    pub(crate) first: &'a MemberWrite,
    /// The one that ended last.
    pub(crate) last: &'a MemberWrite,
}

impl Tenure<'_> {
    pub(crate) fn writer(&self) -> &str {
        &self.first.writer
    }
}

/// The tenures of a cluster; only writes that were made count.
pub(crate) fn tenures(writes: &[MemberWrite]) -> Vec<Tenure<'_>> {
    let mut made: Vec<&MemberWrite> = writes.iter().filter(|write| write.made).collect();
    made.sort_by_key(|write| write.begun);
    let mut tenures: Vec<Tenure<'_>> = Vec::new();
    for write in made {
        match tenures.last_mut() {
            Some(tenure) if tenure.writer() == write.writer => {
                if write.ended > tenure.last.ended {
                    tenure.last = write;
                }
            }
            _ => tenures.push(Tenure { first: write, last: write }),
        }
    }
    tenures
}

/// What must not be in the history of a cluster.
pub(crate) fn judge(writes: &[MemberWrite], takeovers: &[Takeover]) -> Vec<String> {
    let tenures = tenures(writes);
    let mut wrong = Vec::new();
    for pair in tenures.windows(2) {
        let [former, next] = pair else { continue };
        let (late, first) = (former.last, next.first);
        if late.ended > first.begun {
            wrong.push(format!(
                "{} of {} ended {} after {} of {} had begun",
                late.what,
                late.writer,
                millis(late.ended - first.begun),
                first.what,
                first.writer,
            ));
            continue;
        }
        let since = |takeover: &&Takeover| (late.ended..=first.begun).contains(&takeover.at);
        if !takeovers.iter().filter(since).any(|takeover| takeover.writer == first.writer) {
            wrong.push(format!(
                "{} of {}: it has taken no lease since {} of {}, {} before",
                first.what,
                first.writer,
                late.what,
                late.writer,
                millis(first.begun - late.ended),
            ));
        }
    }
    wrong
}

fn millis(micros: i64) -> String {
    format!("{} ms", micros / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(writer: &str, begun: i64, ended: i64) -> MemberWrite {
        MemberWrite {
            writer: writer.to_owned(),
            what: format!("patch n{begun}"),
            begun: begun * 1_000,
            ended: ended * 1_000,
            code: 200,
            made: true,
        }
    }

    fn takeover(writer: &str, at: i64) -> Takeover {
        Takeover { lease: "business-controller-00".to_owned(), writer: writer.to_owned(), at: at * 1_000 }
    }

    #[test]
    fn one_after_the_other_is_good() {
        let writes =
            [write("a", 1, 2), write("a", 3, 9), write("a", 4, 5), write("b", 20, 21), write("a", 30, 31)];
        let takeovers = [takeover("a", 0), takeover("b", 15), takeover("a", 29)];
        assert_eq!(judge(&writes, &takeovers), Vec::<String>::new());
        let order: Vec<&str> = tenures(&writes).iter().map(|tenure| tenure.first.writer.as_str()).collect();
        assert_eq!(order, ["a", "b", "a"]);
    }

    #[test]
    fn a_write_that_is_under_way_when_the_next_one_begins_is_found() {
        let writes = [write("a", 1, 25), write("a", 2, 3), write("b", 20, 21)];
        assert_eq!(
            judge(&writes, &[takeover("b", 15)]),
            ["patch n1 of a ended 5 ms after patch n20 of b had begun"]
        );
    }

    #[test]
    fn a_former_holder_that_writes_once_more_is_found() {
        let writes = [write("a", 1, 2), write("b", 20, 21), write("a", 22, 23), write("b", 24, 25)];
        let found = judge(&writes, &[takeover("a", 0), takeover("b", 15)]);
        assert_eq!(
            found,
            [
                "patch n22 of a: it has taken no lease since patch n20 of b, 1 ms before",
                "patch n24 of b: it has taken no lease since patch n22 of a, 1 ms before",
            ]
        );
    }

    #[test]
    fn a_late_write_that_the_cluster_has_refused_is_none() {
        let refused = MemberWrite { code: 409, made: false, ..write("a", 22, 23) };
        let writes = [write("a", 1, 2), write("b", 20, 21), refused];
        assert_eq!(judge(&writes, &[takeover("b", 15)]), Vec::<String>::new());
    }

    #[test]
    fn whoever_begins_without_a_lease_is_found() {
        let writes = [write("a", 1, 2), write("b", 20, 21)];
        assert_eq!(judge(&writes, &[takeover("b", 1), takeover("c", 15)]).len(), 1);
    }
}
